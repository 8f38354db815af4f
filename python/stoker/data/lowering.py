# SPDX-License-Identifier: Apache-2.0
"""Lowering: a dataset and transforms of torchvision as a native plan, where every step is known and exact.

Nothing here imports torchvision: a dataset of it can only exist where it is loaded. A step that is not known exactly (a
subclass, another interpolation, a lambda) sends the whole dataset to Python workers, with the reason. The result is a
value; the pipeline room decides whether its ops are in order.
"""

import math
import sys
from dataclasses import dataclass, field

_FOLDER = "torchvision.datasets.folder"
_V1 = "torchvision.transforms.transforms"
_V2 = "torchvision.transforms.v2"


@dataclass
class Step:
    """One line of explain(): what the user wrote, where it runs, why not native."""

    what: str
    native: bool
    why: str = ""


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


class _NotExact(Exception):
    """This step has no native form; the text is the reason."""


def lower(dataset) -> Lowered:
    steps = []
    try:
        folder, indices = _folder_of(dataset)
        steps.append(Step(_spelled(dataset), True))
        _check_folder(folder)
        steps.append(Step("loader: PIL, convert('RGB')", True))
    except _NotExact as reason:
        steps.append(Step(_spelled(dataset), False, str(reason)))
        return Lowered(None, steps, str(reason))
    ops, state = [{"op": "decode_rgb"}], _State()
    first_reason = ""
    for transform in _flatten(folder.transform):
        try:
            ops += state.lower(transform)
            steps.append(Step(_one_line(transform), True))
        except _NotExact as reason:
            steps.append(Step(_one_line(transform), False, str(reason)))
            first_reason = first_reason or f"{type(transform).__name__}: {reason}"
    if not first_reason:
        try:
            state.check_complete()
        except _NotExact as reason:
            first_reason = str(reason)
    if first_reason:
        return Lowered(None, steps, first_reason)
    samples = folder.samples if indices is None else [folder.samples[i] for i in indices]
    return Lowered(
        _in_plan_order(ops),
        steps,
        output="float32" if state.is_float else "uint8",
        root=str(folder.root),
        samples=samples,
        classes=list(folder.classes),
    )


def _folder_of(dataset):
    """(the ImageFolder, indices or None). A torch Subset of one is a list of its files."""
    torch_data = sys.modules.get("torch.utils.data.dataset")
    if torch_data is not None and type(dataset) is torch_data.Subset:
        folder, outer = _folder_of(dataset.dataset)
        indices = [int(i) for i in dataset.indices]
        return folder, indices if outer is None else [outer[i] for i in indices]
    module = sys.modules.get(_FOLDER)
    if module is None or not isinstance(dataset, module.DatasetFolder):
        raise _NotExact("its samples are made by its own Python code")
    kind = type(dataset)
    for name in ("__getitem__", "__len__"):
        if getattr(kind, name) is not getattr(module.DatasetFolder, name):
            raise _NotExact(f"{kind.__name__} has a {name} of its own")
    if hasattr(kind, "__getitems__"):
        raise _NotExact(f"{kind.__name__} has a __getitems__ of its own")
    return dataset, None


def _check_folder(folder) -> None:
    module = sys.modules[_FOLDER]
    if folder.target_transform is not None:
        raise _NotExact("it has a target_transform")
    if folder.loader is not module.pil_loader:
        backend = getattr(sys.modules.get("torchvision"), "get_image_backend", lambda: "PIL")()
        if folder.loader is not module.default_loader or backend != "PIL":
            raise _NotExact("it has a loader of its own")
    if not folder.samples:
        raise _NotExact("it has no samples")


def _flatten(transform) -> list:
    """The leaves of nested Compose and Sequential objects, in order."""
    if transform is None:
        return []
    name = _known_name(transform)
    if name == "Compose":
        return [leaf for inner in transform.transforms for leaf in _flatten(inner)]
    torch = sys.modules.get("torch")
    if torch is not None and type(transform) is torch.nn.Sequential:
        return [leaf for inner in transform for leaf in _flatten(inner)]
    return [transform]


def _known_name(transform) -> str:
    """The class's name if it is torchvision's own class (never a subclass), else ""."""
    module = type(transform).__module__ or ""
    return type(transform).__name__ if module == _V1 or module.startswith(_V2 + ".") else ""


class _State:
    """What the sample is after the steps so far: a PIL picture, a uint8 tensor, a float tensor. Confined."""

    def __init__(self):
        self.is_tensor = self.is_float = self.is_normalized = False
        self.size = None

    def lower(self, transform) -> list:
        name = _known_name(transform)
        method = getattr(self, "_" + name, None)
        if not name:
            raise _NotExact("not a transform of torchvision")
        if "forward" in vars(transform) or getattr(transform, "_forward_hooks", None) or transform.__dict__.get(
            "_forward_pre_hooks"
        ):
            raise _NotExact("it has hooks, or a forward of its own")
        if method is None:
            raise _NotExact("it has no native form yet")
        v1 = type(transform).__module__ == _V1
        return method(transform, v1)

    def check_complete(self) -> None:
        if not self.is_tensor:
            raise _NotExact("the transforms end in a picture, not in a tensor")
        if self.size is None:
            raise _NotExact("the transforms leave pictures of different sizes, so rows differ in shape")

    # One method per class of torchvision, named as it is.

    def _RandomResizedCrop(self, t, v1):
        self._need_picture()
        _need_bilinear(t.interpolation)
        self.size = _pair(t.size)
        scale, ratio = [float(x) for x in t.scale], [float(x) for x in t.ratio]
        if not (0 <= scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1]):
            raise _NotExact("its scale or ratio is not of the kind (min, max)")
        return [{"op": "random_resized_crop", "size": self.size, "scale": scale, "ratio": ratio}]

    def _Resize(self, t, v1):
        self._need_picture()
        _need_bilinear(t.interpolation)
        if t.max_size is not None:
            raise _NotExact("max_size has no native form yet")
        size = [t.size] if isinstance(t.size, int) else list(t.size)
        if len(size) == 1:
            if self.size is not None:
                self.size = _short_side(self.size, int(size[0]))
                return [{"op": "resize", "size": self.size}]
            return [{"op": "resize", "size": int(size[0])}]
        self.size = _pair(size)
        return [{"op": "resize", "size": self.size}]

    def _CenterCrop(self, t, v1):
        if self.is_normalized:
            raise _NotExact("after Normalize its padding would be another colour")
        self.size = _pair(t.size)
        return [{"op": "center_crop", "size": self.size}]

    def _RandomHorizontalFlip(self, t, v1):
        p = float(t.p)
        if not 0 <= p <= 1:
            raise _NotExact("its p is no probability")
        return [{"op": "horizontal_flip", "p": p}]

    def _ToTensor(self, t, v1):
        self._need_picture()
        torch = sys.modules["torch"]
        if torch.get_default_dtype() is not torch.float32:
            raise _NotExact(f"the default dtype is {torch.get_default_dtype()}")
        self.is_tensor = self.is_float = True
        return [{"op": "to_float", "rule": "v1"}]

    def _PILToTensor(self, t, v1):
        self._need_picture()
        self.is_tensor = True
        return []

    _ToImage = _PILToTensor

    def _ToPureTensor(self, t, v1):
        return []

    _Identity = _ToPureTensor

    def _ToDtype(self, t, v1):
        torch = sys.modules["torch"]
        if not self.is_tensor:
            raise _NotExact("it does nothing to a PIL picture; a ToImage before it is missing")
        if t.dtype is (torch.float32 if self.is_float else torch.uint8):
            return []
        if self.is_float or t.dtype is not torch.float32 or not t.scale:
            raise _NotExact("only uint8 to float32 with scale=True has a native form")
        self.is_float = True
        return [{"op": "to_float", "rule": "v2"}]

    def _ConvertImageDtype(self, t, v1):
        torch = sys.modules["torch"]
        if not self.is_tensor or self.is_float or t.dtype is not torch.float32:
            raise _NotExact("only uint8 to float32 has a native form")
        self.is_float = True
        return [{"op": "to_float", "rule": "v1" if v1 else "v2"}]

    def _Normalize(self, t, v1):
        if not self.is_float or self.is_normalized:
            raise _NotExact("it does not follow the conversion to float")
        mean, std = _three(t.mean), _three(t.std)
        if not all(math.isfinite(x) for x in mean + std) or 0.0 in std:
            raise _NotExact("its mean or std is not finite, or std is zero")
        self.is_normalized = True
        return [{"op": "normalize", "mean": mean, "std": std}]

    def _need_picture(self) -> None:
        if self.is_tensor:
            raise _NotExact("it acts on a tensor here, whose pixels differ from a PIL picture's; only PIL's are native")


def _in_plan_order(ops: list) -> list:
    """Moves crops and flips before to_float: they copy values, so they commute with it (and flips with normalize)."""
    late = [op for op in ops if op["op"] in ("to_float", "normalize")]
    return [op for op in ops if op not in late] + late


def _need_bilinear(interpolation) -> None:
    value = getattr(interpolation, "value", interpolation)
    if value not in ("bilinear", 2):
        raise _NotExact(f"interpolation {value} has no native form yet")


def _pair(size) -> list:
    size = list(size)
    if len(size) != 2 or not all(float(x).is_integer() and x > 0 for x in size):
        raise _NotExact(f"size {size} is not two positive whole numbers")
    return [int(x) for x in size]


def _short_side(size, short: int) -> list:
    height, width = size
    if height <= width:
        return [short, int(short * width / height)]
    return [int(short * height / width), short]


def _three(values) -> list:
    values = [float(x) for x in (values.tolist() if hasattr(values, "tolist") else values)]
    if len(values) == 1:
        values *= 3
    if len(values) != 3:
        raise _NotExact(f"{len(values)} values for 3 channels")
    return values


def _spelled(dataset) -> str:
    return f"{type(dataset).__module__}.{type(dataset).__qualname__}"


def _one_line(transform) -> str:
    text = " ".join(repr(transform).split())
    return text if len(text) <= 100 else text[:97] + "..."
