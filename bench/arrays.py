# SPDX-License-Identifier: Apache-2.0
"""What does one record of 4 KB cost, from arrays in memory, shuffled, in batches of 256?

Ours is `stoker.DataLoader` over `stoker.data.arrays`, hashing and handing over included. The bound is one memcpy of each
record from its random place into a batch. Run as a program it measures ours, or the bound (--bound 1).
"""
import harness
import measure

NEEDS = ["torch"]
NEEDS_PICTURES = False
UNIT, SCALE = "us/record", 1e6


def contestants(run):
    listed = [harness.ours(run, "bound/memcpy", "arrays.py", 0, "--bound", "1")]
    for workers in (0, 1, 2):
        listed.append(harness.ours(run, "stoker/exact", "arrays.py", workers))
        for variant in ("arrays", "getitems"):
            listed.append(peer(run, variant, workers))
    return listed


def peer(run, variant, workers):
    """bench/torch_arrays.py in the environment of torch's other scripts."""
    python = harness.HOME / "venv" / "torch" / "bin" / "python"
    script = harness.ROOT / "bench" / "torch_arrays.py"
    command = [str(python), str(script), "--workers", str(workers), "--variant", variant, "--batch", "256", "--json"]
    missing = "" if harness.ready("torch") else "environment torch"
    shared = {"STOKER_SHARED": str(harness.SHARED)}
    return harness.Contestant(
        f"torch_dataloader/{variant}", workers, command + run.timing(), harness.per_image, shared, missing
    )


def verdict(best):
    bound = best.get(("bound/memcpy", 0))
    for workers in (0, 1, 2):
        ours, theirs = best.get(("stoker/exact", workers)), best.get(("torch_dataloader/arrays", workers))
        if ours and theirs:
            yield f"{workers} worker(s): {theirs.cpu_s_per_item / ours.cpu_s_per_item:.1f}x torch's DataLoader (wanted: 20x)"
        if ours and bound:
            yield f"{workers} worker(s): {bound.cpu_s_per_item / ours.cpu_s_per_item:.0%} of the bound's speed"


def main():
    args = measure.parse(batch=256, records=65536, bound=0)
    import numpy

    x = numpy.random.default_rng(0).integers(0, 256, (args.records, 4096), dtype=numpy.uint8)
    y = numpy.arange(args.records)
    result = measure.windows(args, copies(args, x, y) if args.bound else batches(args, x, y))
    measure.emit({**result, "note": f"{args.records} records"})


def batches(args, x, y):
    import torch  # noqa: F401  batches are tensors, as the peer's

    import stoker

    loader = stoker.DataLoader(
        stoker.data.arrays(x, y), batch_size=args.batch, shuffle=True, num_workers=args.workers, drop_last=True,
        persistent_workers=args.workers > 0,
    )

    made = measure.forever(loader)

    def step():
        records, _ = next(made)
        return len(records)

    return step


def copies(args, x, y):
    """One memcpy a record: numpy.take into a batch that is used again."""
    import numpy

    order = numpy.random.default_rng(1).permutation(args.records).reshape(-1, args.batch)
    out, labels, at = numpy.empty((args.batch, 4096), numpy.uint8), numpy.empty(args.batch, y.dtype), 0

    def step():
        nonlocal at
        numpy.take(x, order[at % len(order)], axis=0, out=out, mode="clip")
        numpy.take(y, order[at % len(order)], out=labels, mode="clip")
        at += 1
        return args.batch

    return step


if __name__ == "__main__":
    main()
