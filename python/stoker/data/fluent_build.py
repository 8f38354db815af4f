# SPDX-License-Identifier: Apache-2.0
"""From a pipe, which is a value, to what a loader needs: dataset, order, batches. Says what cannot be, and what to do instead."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy

from stoker.data import fluent_stages as stages
from stoker.data import lowering
from stoker.data.fluent_order import Order
from stoker.data.fluent_samples import Samples, digest_of, leading_ops, native_prefix
from stoker.data.identity import what_stands_for
from stoker.data.plan import full_name


@dataclass
class Built:
    """`dataset` goes to a DataLoader; `order` says which of its items stand where."""

    dataset: Any
    order: Order
    size: int = 1
    single: bool = True  # no batch(): samples one by one
    drop_last: bool = False
    collate: Any = None
    packs: bool = False  # windows come as lists of samples, batched by the consumer
    rank: int = 0
    world: int = 1
    seed: int = 0
    prefetch: int | None = None
    device_ops: list = field(default_factory=list)
    picture_cache: Any = None
    native: bool = False
    version: str = ""


def build(pipe) -> Built:
    """Everything but the look at all items that filter(how="index") takes: that is `index_of`."""
    parts = _split(pipe)
    _check_shard(parts)
    samples = _without_device(parts)
    order = _order(pipe, parts)
    built = Built(None, order, packs=parts.packs, seed=parts.seed if parts.seed is not None else order.seed())
    if parts.batch is not None:
        built.size, built.single, built.drop_last = parts.batch.size, False, parts.batch.drop_last
        built.collate = parts.batch.collate
    if parts.shard is not None:
        built.rank, built.world = parts.shard.rank, parts.shard.world
    built.prefetch, built.device_ops, built.picture_cache = parts.prefetch, parts.device_ops, parts.picture_cache
    if not order.endless:
        _check_last_batch(built)
    direct = _native_dataset(pipe.source, samples, parts, built)
    if direct is not None:
        built.dataset, built.native = direct, True
        return built
    form = "list" if parts.packs else "single" if built.single else "batch"
    windows = [(stage.function, _window(stage, built)) for stage in parts.windows]
    described = _described(pipe.source, samples, parts)
    made = Samples(pipe.source, samples, windows, built.collate, form, described, parts.picture_cache)
    _check_ops(pipe.source, samples)
    _check_picture_cache(parts, samples)
    built.dataset, built.version = made, digest_of(described + form)
    return built


def length(pipe) -> int:
    parts = _split(pipe)
    if parts.packs:
        raise TypeError("how many samples filter() keeps or flat_map() makes is known when they are made: no len()")
    order = _order(pipe, parts)
    if order.endless:
        raise TypeError("repeat() without a number has no end: no len()")
    if parts.batch is None:
        return order.length
    return order.length // parts.batch.size if parts.batch.drop_last else -(-order.length // parts.batch.size)


def samples_of(pipe) -> Samples:
    """A pipe of samples alone, as a part of a mixture."""
    parts = _split(pipe)
    if parts.order or parts.batch or parts.packs or parts.shard or parts.device_ops or parts.windows:
        raise ValueError("mix() takes pipes of samples alone (decode, map, …): order, batches and filters go behind mix()")
    if any(isinstance(stage, (stages.Cache, stages.Filter)) for stage in parts.samples):
        raise ValueError("cache() and filter() go behind mix()")
    _check_ops(pipe.source, parts.samples)
    _check_picture_cache(parts, parts.samples)
    described = _described(pipe.source, parts.samples, parts)
    return Samples(pipe.source, parts.samples, form="single", described=described, picture_cache=parts.picture_cache)


@dataclass
class _Parts:
    order: list = field(default_factory=list)
    samples: list = field(default_factory=list)
    windows: list = field(default_factory=list)
    device_ops: list = field(default_factory=list)
    batch: Any = None
    shard: Any = None
    prefetch: int | None = None
    picture_cache: Any = None
    seed: int | None = None
    packs: bool = False


def _split(pipe) -> _Parts:
    """Sorts the stages by what they are about, and refuses those whose place has no meaning."""
    parts = _Parts()
    for stage in pipe.stages:
        if isinstance(stage, (*stages.ORDERING, *stages.SAMPLES)) and parts.batch is not None:
            raise ValueError(f"{stage} stands behind batch(): samples are chosen, ordered and changed before it")
        if isinstance(stage, stages.ORDERING):
            if parts.packs:
                raise ValueError(
                    f"{stage} counts samples that filter() or flat_map() only finds: put it before them, or use "
                    "filter(…, how='index')"
                )
            parts.order.append(stage)
        elif isinstance(stage, stages.Filter) and stage.how == "index":
            if parts.packs or any(isinstance(one, stages.Filter) for one in parts.samples):
                raise ValueError("filter(how='index') goes before other filters and flat_map()")
            parts.order.append((stage, list(parts.samples)))
        elif isinstance(stage, stages.SAMPLES):
            if parts.device_ops:
                raise ValueError(f"{stage} stands behind on_device(): what the device does comes last")
            _check_cache(stage, parts)
            parts.packs = parts.packs or isinstance(stage, stages.FlatMap) or getattr(stage, "how", "") == "window"
            parts.samples.append(stage)
        elif isinstance(stage, stages.Batch):
            if parts.batch is not None:
                raise ValueError("batch() is called twice")
            parts.batch = stage
        elif isinstance(stage, stages.MapBatches):
            parts.windows.append(stage)
        elif isinstance(stage, stages.Shard):
            if parts.shard is not None:
                raise ValueError("shard() is called twice")
            parts.shard = stage
        elif isinstance(stage, stages.OnDevice):
            parts.device_ops = parts.samples[-stage.ops :]
            if not all(isinstance(op, stages.Op) for op in parts.device_ops):
                raise ValueError("on_device() takes the last ops; a map() or filter() stands between or behind them")
        elif isinstance(stage, stages.Prefetch):
            parts.prefetch = stage.batches
        elif isinstance(stage, stages.OfPictures):
            parts.picture_cache = stage.cache
        elif isinstance(stage, stages.Seed):
            parts.seed = stage.seed
    if parts.windows and parts.batch is None:
        raise ValueError("map_batches() needs a batch()")
    return parts


def _check_cache(stage, parts: _Parts) -> None:
    if not isinstance(stage, stages.Cache):
        return
    random = [op for op in parts.samples if isinstance(op, stages.Op) and not _is_fixed(op.fields)]
    if random:
        raise ValueError(f"cache() behind {random[0]} would keep one draw for ever: put the random ops behind it")
    if parts.packs or any(isinstance(one, stages.Filter) for one in parts.samples):
        raise ValueError("cache() goes before filter() and flat_map(): it keeps one sample an item")


def _check_picture_cache(parts: _Parts, samples: list) -> None:
    """Of a pipe that is not native as a whole: what decodes must be."""
    ops = [op.fields for op in leading_ops(samples)]
    if parts.picture_cache is not None and (len(ops) < 2 or lowering.leave_size_open(ops)):
        raise ValueError(
            f"cache({parts.picture_cache.kind!r}) is for pictures that are decoded natively: decode() and an op that fixes the size"
        )


_FIXED_OPS = ("decode_rgb", "resize", "center_crop", "pad", "grayscale", "adjust", "to_float", "normalize")


_ANY_SIZE = (4096, 4096)  # of a picture, to see whether ops fix theirs once that is known


def _is_fixed(op: dict) -> bool:
    return op["op"] in _FIXED_OPS


def _check_shard(parts: _Parts) -> None:
    if parts.shard is None or parts.shard.world == 1:
        return
    if parts.batch is None:
        raise ValueError("shard() divides batches: it needs a batch()")
    if parts.packs:
        raise ValueError(
            f"with {parts.shard.world} consumers the samples that filter() or flat_map() leaves would give them unequal "
            "numbers of batches: use filter(…, how='mask'), which keeps every row and says which are valid, or "
            "filter(…, how='index'), which looks at all items once and numbers those that are kept"
        )
    if parts.batch.size < parts.shard.world:
        raise ValueError(f"batches of {parts.batch.size} rows have none for some of {parts.shard.world} consumers")


def _check_last_batch(built: Built) -> None:
    rest = built.order.length % built.size
    if built.world > 1 and not built.drop_last and 0 < rest < built.world:
        raise ValueError(
            f"the last batch has {rest} rows for {built.world} consumers: batch(…, drop_last=True), or another batch size"
        )


def _window(stage, built: Built):
    """Positions of a window, checked to lie whole in every consumer's rows."""
    size = stage.size
    if built.packs:
        raise ValueError("map_batches() behind filter() or flat_map() has no fixed positions: use filter(…, how='mask') or 'index'")
    if built.collate == "ragged" and size is not None:
        raise ValueError("map_batches(size=…) needs rows that are stacked, not collate='ragged'")
    if size is not None and built.size % size:
        raise ValueError(f"windows of {size} positions do not fill a batch of {built.size}: use a size that divides it")
    bounds = [rank * built.size // built.world for rank in range(built.world + 1)]
    if built.world > 1 and (size is None or any(bound % size for bound in bounds)):
        raise ValueError(
            f"windows of {size or built.size} positions do not fit into the rows of {built.world} consumers: map_batches(size=s) "
            f"with an s that divides {', '.join(map(str, bounds[1:-1]))}"
        )
    return None if size == built.size else size


def _without_device(parts: _Parts) -> list:
    if not parts.device_ops:
        return parts.samples
    if parts.packs or parts.windows:
        raise ValueError("on_device() goes with plain batches, not with filter() by windows, flat_map() or map_batches()")
    if parts.batch is None or parts.batch.collate is not None:
        raise ValueError("on_device() works on stacked batches: it needs batch(n)")
    return parts.samples[: -len(parts.device_ops)]


def _order(pipe, parts: _Parts) -> Order:
    steps, chosen = [], {}
    for stage in parts.order:
        if isinstance(stage, stages.Shuffle):
            steps.append(["full", stage.seed] if stage.block is None else ["block", stage.block, stage.seed])
        elif isinstance(stage, stages.Take):
            steps.append(["take", stage.count])
        elif isinstance(stage, stages.Skip):
            steps.append(["skip", stage.count])
        elif isinstance(stage, stages.Repeat):
            steps.append(["repeat", stage.times])
        else:
            if steps:
                raise ValueError("filter(how='index') goes before shuffle(), take(), skip() and repeat()")
            kept = index_of(pipe.source, *stage)
            name = digest_of(kept.tobytes().hex())
            chosen[name] = kept
            steps.append(["chosen", name])
    starts = pipe.source.shard_starts() if any(step[0] == "block" for step in steps) and hasattr(pipe.source, "shard_starts") else None
    return Order(len(pipe.source), steps, starts, chosen)


_indexes = {}  # of the last few: a pipe's len() and its loaders ask for the same


def index_of(source, stage, before) -> numpy.ndarray:
    """Items (int64) that filter(how="index") keeps, by one pass over all of them."""
    from stoker.data import seeding

    key = (id(source), stage, *map(id, before))
    if key not in _indexes:
        _check_ops(source, before)
        random = [op for op in before if isinstance(op, stages.Op) and not _is_fixed(op.fields)]
        if random:
            raise ValueError(f"filter(how='index') behind {random[0]} would depend on its draws: put it before")
        plain = [one for one in before if not isinstance(one, stages.Cache)]
        samples = Samples(source, plain, form="single")
        kept = []
        with seeding.kept_generators():
            for item in range(len(source)):
                seeding.seed_generators(0, item | 1 << 62)
                if stage.function(samples.sample_at(0, item, item)[0]):
                    kept.append(item)
        while len(_indexes) >= 8:
            _indexes.pop(next(iter(_indexes)))
        # With those whose ids are in the key, which are then nobody else's.
        _indexes[key] = (source, tuple(before)), numpy.array(kept, dtype=numpy.int64)
    return _indexes[key][1]


def _native_dataset(source, samples: list, parts: _Parts, built: Built):
    """The dataset whose plan is native, or None where Python is needed."""
    if parts.windows or built.collate is not None or built.packs:
        return None
    if not samples:
        return source if lowering.lower(source).ops is not None else None
    if _holds_masks(source) and len(leading_ops(samples)) == len(samples):
        if parts.device_ops:
            raise ValueError("on_device() changes pictures, not their masks: leave it out")
        dataset = source.with_transform(lowering.NativeOps([op.fields for op in samples]))
        lowered = lowering.lower(dataset)
        if lowered.ops is None:
            raise ValueError(f"pictures with masks are made natively or not at all: {lowered.why}")
        return dataset
    if native_prefix(source, samples)[0] != len(samples):
        return None
    if samples[0].fields["op"] != "decode_rgb":
        return source.with_transform(lowering.NativeOps([op.fields for op in samples]))
    if not _holds_pictures(source):
        return None
    dataset = source.with_transform(lowering.NativeOps([op.fields for op in samples]))
    return dataset if lowering.lower(dataset).ops is not None else None


def _holds_pictures(source) -> bool:
    from stoker.data.pictures import PictureSource

    return type(source) is PictureSource and source.transform is None


def _instead_of_decode(source) -> str:
    from stoker.data.containers import RecordSource, TarSource
    from stoker.data.pictures import PictureSource

    if isinstance(source, PictureSource):
        return "it has a transform; leave transform= out"
    if isinstance(source, (TarSource, RecordSource)):
        return "name its picture (image=…) when making the source"
    return (
        "its samples are Python's; make pixels of them with transform=, where it has one, or with map(): "
        "stoker.data.image.decode(bytes) gives [H, W, 3]"
    )


def _holds_masks(source) -> bool:
    from stoker.data.masks import MaskedPictures

    return type(source) is MaskedPictures and source.transform is None


def _has_hwc_rows(source) -> bool:
    """Rows that only the native producer takes for pictures: Python's are [C, H, W]."""
    from stoker.data.array_source import ArraySource

    return type(source) is ArraySource and source.transform is None and source.picture_layout() == "hwc"


def _check_ops(source, samples: list) -> None:
    """Ops of a Python plan that could run nowhere."""
    decoding = [number for number, stage in enumerate(samples) if isinstance(stage, stages.Op) and stage.fields["op"] == "decode_rgb"]
    if decoding not in ([], [0]):
        raise ValueError("decode() comes first among the steps of samples, and once")
    if decoding and _holds_masks(source):
        raise ValueError("pictures with masks are made natively or not at all: without Python steps, in stacked batches")
    if decoding and not _holds_pictures(source):
        raise TypeError(f"decode() works on stored pictures, which {source!r} does not give: {_instead_of_decode(source)}")
    if not decoding and _holds_pictures(source) and samples and isinstance(samples[0], stages.Op):
        raise ValueError(f"{samples[0]} works on pixels: call decode() before it")
    if samples and isinstance(samples[0], stages.Op) and _has_hwc_rows(source):
        count, why = native_prefix(source, samples)
        if not count:
            raise ValueError(f"{samples[0]} and what follows it: {why}")
    leading = leading_ops(samples)
    if len(leading) < 2:
        return
    ops = [op.fields for op in leading]
    if not lowering.leave_size_open(ops):
        lowered = lowering.lower(source.with_transform(lowering.NativeOps(ops)))
        if lowered.ops is None:
            raise ValueError(f"ops behind decode(): {lowered.why}")
    elif lowering.leave_size_open(ops[1:], _ANY_SIZE):
        raise ValueError(
            f"{leading[-1]}: the size of its pictures depends on what is drawn (expand=True, or ops that are taken or not), which "
            "is made neither natively nor on arrays: put resize((height, width)), center_crop or random_resized_crop behind it"
        )


def _described(source, samples: list, parts: _Parts) -> str:
    """What stands for the pipe's contents in its plan (docs/formats/plan.md, `version`)."""
    known = what_stands_for(source)
    of_source = known if len(known) < 400 else digest_of(known)
    spelled = [json.dumps(stage.fields, sort_keys=True) if isinstance(stage, stages.Op) else str(stage) for stage in samples]
    collate = parts.batch.collate if parts.batch is not None else None
    collate = full_name(collate) if callable(collate) else str(collate)
    windows = [f"{stage}/{stage.size}" for stage in parts.windows]
    return "|".join([of_source, *spelled, collate, *windows])
