# SPDX-License-Identifier: Apache-2.0
"""The last ops of a pipe on whole batches: in torch on the consumer's device, in NumPy elsewhere.

Both compute as the plan's ops do, one rounding a step: NumPy and torch on a CPU give the same bits as the native row, other
devices are within 1e-6 relative (docs/parity.md). Which rows are flipped is what the op would have drawn at their positions.
"""

import functools
import json
import sys

import numpy

from stoker import _native

NAMES = ("to_float", "normalize", "horizontal_flip", "vertical_flip")
_AXES = {"horizontal_flip": -1, "vertical_flip": -2}


def device_ops(ops: list, names) -> int:
    """How many of the last of `ops` (fields) go to the device; ValueError where those named are not the last."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"on_device: {', '.join(unknown)} cannot be there; {', '.join(NAMES)} can")
    wanted = set(names) or set(NAMES)
    count = 0
    while count < len(ops) - 1 and ops[-1 - count]["op"] in wanted:
        count += 1
    done = {op["op"] for op in ops[len(ops) - count :]}
    if not count or (names and done != wanted):
        last = ", ".join(op["op"] for op in ops[-3:])
        raise ValueError(f"on_device({', '.join(names)}) takes the last ops of a pipe, which end in {last or 'none'}")
    return count


def on_arrays(batch: numpy.ndarray, ops, seed: int, positions) -> numpy.ndarray:
    """uint8 or float32 [B, C, H, W] through the ops."""
    for op in ops:
        fields = op.fields
        if fields["op"] == "to_float":
            batch = _floats(batch, fields["rule"])
        elif fields["op"] == "normalize":
            mean, std = (numpy.asarray(fields[name], numpy.float32).reshape(1, -1, 1, 1) for name in ("mean", "std"))
            batch = (batch - mean) / std
        else:
            flipped = flips(op, seed, positions)
            if flipped.any():
                batch = batch.copy()
                batch[flipped] = numpy.flip(batch[flipped], _AXES[fields["op"]])
    return numpy.ascontiguousarray(batch)


def on_tensors(batch, ops, seed: int, positions):
    """The same for a tensor, on its device."""
    torch = sys.modules["torch"]
    for op in ops:
        fields = op.fields
        if fields["op"] == "to_float":
            if batch.dtype == torch.uint8:
                batch = batch.to(torch.float32)
                # By a tensor: division by a number is a multiplication by its reciprocal on some devices.
                if fields["rule"] == "v1":
                    batch = batch / torch.full((1,), 255.0, device=batch.device)
                elif fields["rule"] == "v2":
                    batch = batch * float(numpy.float32(1) / numpy.float32(255))
        elif fields["op"] == "normalize":
            mean, std = (
                torch.tensor(fields[name], dtype=torch.float32, device=batch.device).view(1, -1, 1, 1) for name in ("mean", "std")
            )
            batch = (batch - mean) / std
        else:
            flipped = torch.from_numpy(flips(op, seed, positions)).to(batch.device).view(-1, 1, 1, 1)
            batch = torch.where(flipped, batch.flip(_AXES[fields["op"]]), batch)
    return batch.contiguous()


def flips(op, seed: int, positions) -> numpy.ndarray:
    """bool [B]: whether the op flips the sample at each position."""
    plan = row_plan(seed, op.number, json.dumps([op.fields]), 8, 8)
    drawn = (json.loads(plan.parameters(int(position), 0, 8, 8))[op.number]["did"] for position in positions)
    return numpy.fromiter((bool(did) for did in drawn), dtype=bool, count=len(positions))


@functools.lru_cache(maxsize=64)
def row_plan(seed: int, number: int, ops: str, height: int, width: int):
    """A plan of one picture, uint8 [3, height, width], through `ops` (JSON), of which the first draws as a pipe's op of that number."""
    from stoker.data.recipe import arrays_value

    # Ops that do nothing stand for those before.
    ops = [{"op": "vertical_flip", "p": 0.0}] * number + json.loads(ops)
    column = {"name": "image", "dtype": "uint8", "shape": [3, height, width], "content": "xxh3:0"}
    pictures = {"column": "image", "layout": "chw", "ops": ops}
    rows = {"kind": "arrays", "items": 1, "columns": [column], "pictures": pictures}
    return _native.pipeline.Plan.parse(json.dumps(arrays_value(rows, seed)))


def _floats(batch: numpy.ndarray, rule: str) -> numpy.ndarray:
    if batch.dtype != numpy.uint8:
        return batch
    batch = batch.astype(numpy.float32)
    if rule == "v1":
        return batch / numpy.float32(255)
    return batch * (numpy.float32(1) / numpy.float32(255)) if rule == "v2" else batch
