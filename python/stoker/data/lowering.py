# SPDX-License-Identifier: Apache-2.0
"""Lowering: a dataset and transforms of torchvision as a native plan, where every step is known and exact.

Nothing here imports torchvision: a dataset of it can only exist where it is loaded. A step that is not known exactly (a
subclass, another interpolation, a lambda) sends the whole dataset to Python workers, with the reason. What each class of
torchvision becomes is lowering_ops.py. The result is a value; the pipeline room decides whether its ops are in order.
"""

import json
import sys
from dataclasses import dataclass, field

from stoker import _native
from stoker.data import lowering_arrays
from stoker.data.fluent_ops import gray16_field
from stoker.data.lowering_ops import Ops
from stoker.data.lowering_values import NotExact, flatten

# Said of the step that decodes.
OTHERS = "JPEG, PNG and WebP; other formats by Pillow, in a child process that is started when one is met"
_FOLDER = "torchvision.datasets.folder"
_LONGEST = 1000  # text of a transform, which may hold anything of the user's


@dataclass
class Step:
    """One line of explain(): what the user wrote, where it runs, why not native."""

    what: str
    native: bool
    why: str = ""


@dataclass(frozen=True)
class NativeOps:
    """In the place of a transform: ops of a plan as they are (what fluent.py's methods make)."""

    ops: list


@dataclass
class Lowered:
    """`ops` is None where the dataset runs as Python; `why` then says for which reason first."""

    ops: list | None
    steps: list = field(default_factory=list)
    why: str = ""
    output: str = "uint8"
    root: str = ""
    samples: list | None = None
    classes: list | None = None
    source: object = None  # a PictureSource or ArraySource of our own, in the place of samples
    mask_dtype: str = ""  # where transforms convert masks
    arrays: str = ""  # it is the latter: "rows" are copied, or `ops` are for the "pictures" in it


def lower(dataset, gray16: str = "clip") -> Lowered:
    """`gray16`: of pictures that are decoded here; ops that are given as they are say it themselves."""
    ours = _source_of(dataset)
    try:
        arrays = dataset if ours == "arrays" else lowering_arrays.of_torchvision(dataset)
        if arrays is not None:
            return _lower_arrays(dataset, arrays)
        folder, indices = (dataset, None) if ours else _folder_of(dataset)
        steps = [Step(repr(dataset) if ours else _spelled(dataset), True)]
        if ours:
            _check_pictures(dataset)
        else:
            _check_folder(folder)
        scaled = "" if gray16 == "clip" else ", 16-bit gray by its high byte"
        steps.append(Step(f"loader: PIL, convert('RGB'){scaled}", True, OTHERS))
    except NotExact as reason:
        return Lowered(None, [Step(_spelled(dataset), False, str(reason))], str(reason))
    if ours and isinstance(dataset.transform, NativeOps):
        return _checked(dataset, dataset.transform.ops, steps[:1])
    ops = Ops(masked=ours == "masks")
    made, why = _lower_transform(folder.transform, ops, steps, [{"op": "decode_rgb", **gray16_field(gray16)}])
    if why:
        return Lowered(None, steps, why)
    output = "float32" if ops.is_float else "uint8"
    if ours:
        return Lowered(made, steps, output=output, source=dataset, mask_dtype=ops.mask_dtype)
    samples = folder.samples if indices is None else [folder.samples[i] for i in indices]
    return Lowered(made, steps, output=output, root=str(folder.root), samples=samples, classes=list(folder.classes))


def _lower_arrays(dataset, arrays) -> Lowered:
    if isinstance(dataset.transform, NativeOps):
        plain = arrays.with_transform(None)
        lowered = _checked(plain, dataset.transform.ops, [Step(repr(plain), True)], arrays.picture_size())
        lowered.arrays = "pictures"
        return lowered
    steps = [Step(repr(dataset) if arrays is dataset else _spelled(dataset), True)]
    if dataset.transform is None:
        return Lowered([], steps, source=arrays, arrays="rows")
    ops = Ops(is_tensor=arrays.picture_layout() == "chw")
    made, why = _lower_transform(dataset.transform, ops, steps, [], arrays.picture_size())
    if why:
        return Lowered(None, steps, why)
    return Lowered(made, steps, source=arrays, arrays="pictures")


def _lower_transform(transform, ops, steps: list, first: list, size=None) -> tuple:
    """(the plan's ops, "") or (None, why not), and a step for each transform."""
    why = ""
    for leaf in flatten(transform):
        try:
            ops.add(leaf)
            steps.append(Step(_one_line(leaf), True))
        except NotExact as reason:
            steps.append(Step(_one_line(leaf), False, str(reason)))
            why = why or f"{type(leaf).__name__}: {reason}"
    if not why:
        try:
            return ops.finish(first, size), ""
        except NotExact as reason:
            why = str(reason)
    return None, why


def _checked(source, ops: list, steps: list, size=None) -> Lowered:
    """Ops as they are, if they can stand in a plan. `size`: (width, height) of pictures that need no decoding."""
    steps = steps + [Step(_op_text(op), True, OTHERS if op["op"] == "decode_rgb" else "") for op in ops]
    try:
        _native.pipeline.check_ops(json.dumps(ops), size)
    except ValueError as error:
        why = "the ops leave pictures of different sizes, so rows differ in shape" if "size open" in str(error) else str(error)
        return Lowered(None, steps, why)
    output = "float32" if any(op["op"] == "to_float" for op in ops) else "uint8"
    return Lowered(ops, steps, output=output, source=source)


def leave_size_open(ops: list, size=None) -> bool:
    """Whether these ops make pictures of different sizes: of stored ones, or of `size` (width, height) where they do not decode."""
    try:
        _native.pipeline.check_ops(json.dumps(ops), size)
    except ValueError as error:
        return "size open" in str(error)
    return False


def _op_text(op: dict) -> str:
    fields = ", ".join(f"{key}={value}" for key, value in op.items() if key != "op")
    return _one_line_of(f"{op['op']}({fields})")


def _source_of(dataset) -> str:
    """Which of our own sources it is, or "" (also for a subclass, which may be anything)."""
    kind = type(dataset)
    known = {
        ("pictures", "PictureSource"): "pictures",
        ("masks", "MaskedPictures"): "masks",
        ("array_source", "ArraySource"): "arrays",
    }
    module, _, name = kind.__module__.rpartition(".")
    return known.get((name, kind.__qualname__), "") if module == "stoker.data" else ""


def _check_pictures(source) -> None:
    if source.transform is None:
        raise NotExact("without a transform its samples are stored bytes")
    if len(source) == 0:
        raise NotExact("it has no samples")


def _folder_of(dataset):
    """(the ImageFolder, indices or None). A torch Subset of one is a list of its files."""
    torch_data = sys.modules.get("torch.utils.data.dataset")
    if torch_data is not None and type(dataset) is torch_data.Subset:
        folder, outer = _folder_of(dataset.dataset)
        indices = [int(i) for i in dataset.indices]
        return folder, indices if outer is None else [outer[i] for i in indices]
    module = sys.modules.get(_FOLDER)
    if module is None or not isinstance(dataset, module.DatasetFolder):
        raise NotExact("its samples are made by its own Python code")
    kind = type(dataset)
    for name in ("__getitem__", "__len__"):
        if getattr(kind, name) is not getattr(module.DatasetFolder, name):
            raise NotExact(f"{kind.__name__} has a {name} of its own")
    if hasattr(kind, "__getitems__"):
        raise NotExact(f"{kind.__name__} has a __getitems__ of its own")
    return dataset, None


def _check_folder(folder) -> None:
    module = sys.modules[_FOLDER]
    if folder.target_transform is not None:
        raise NotExact("it has a target_transform")
    if folder.loader is not module.pil_loader:
        backend = getattr(sys.modules.get("torchvision"), "get_image_backend", lambda: "PIL")()
        if folder.loader is not module.default_loader or backend != "PIL":
            raise NotExact("it has a loader of its own")
    if not folder.samples:
        raise NotExact("it has no samples")


def _spelled(dataset) -> str:
    return f"{type(dataset).__module__}.{type(dataset).__qualname__}"


def _one_line(transform) -> str:
    return _one_line_of(repr(transform))


def _one_line_of(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
