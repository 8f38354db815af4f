# SPDX-License-Identifier: Apache-2.0
"""The part of a pipe that is Python, as it runs in worker processes: samples.UnitMaker calls `stoker_make_unit`.

A native prefix (decode, crops, …) runs here too, by the producer that native plans have: the same bytes. A value, pickled to
workers; what it opens there is confined to their one thread.
"""

import hashlib
import json
from contextlib import nullcontext

import numpy

from stoker import _native
from stoker.data import interpreter, seeding
from stoker.data.collate import numpy_collate
from stoker.data.fluent_stages import Cache, Filter, FlatMap, Map, Op
from stoker.data.mixture import Mixture

_WINDOWS = 1 << 63  # positions of samples end below: windows draw other numbers than any sample
_ITEMS = 1 << 62  # what stands before a cache is drawn by item


def finished(batch):
    """The collate_fn behind `Samples`, whose units are complete."""
    return batch


class Samples:
    """`stages`: of samples, in order. `windows`: (function, size or None for the whole) applied to collated rows.
    form: "batch", "single" (one sample, as it is) or "list" (what was kept of a window, for the consumer to batch)."""

    def __init__(self, source, stages=(), windows=(), collate=None, form="batch", described="",
                 picture_cache=None):  # fmt: skip
        self.source = source
        self.stages = tuple(stages)
        self.windows = tuple(windows)
        self.collate = collate
        self.form = form
        self.described = described  # stands for all of it in the plan's version
        self.picture_cache = picture_cache  # no part of it: it changes no sample
        self.masked = any(isinstance(stage, Filter) and stage.how == "mask" for stage in stages)
        self.stores = {}  # stage number -> sample_store.Store, opened by fluent_build
        self.prefix, self.why = native_prefix(source, self.stages)  # how many steps are native, and why no more
        self._open = {}

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return ".".join([repr(self.source), *map(str, self.stages)])

    def __getitem__(self, item):
        raise TypeError("samples of a pipe are made by position: use a face, such as pipe.numpy()")

    def __getstate__(self):
        return {**self.__dict__, "_open": {}}

    def stoker_make_unit(self, seed: int, positions, items, stand_at, collating):
        """The batch of these positions. `stand_at(position, item)` seeds the generators and notes where we are; `collating(rows)` is a
        context for collating them to what is handed on."""
        rows = []
        for position, item in zip(positions, items, strict=True):
            stand_at(position, item)
            rows.extend(self.sample_at(seed, position, item))
        if self.form != "batch":
            return rows if self.form == "list" else rows[0]
        if not self.windows:
            with collating(rows) if self.collate is None else nullcontext():
                return collated(rows, self.collate)
        return self._windowed(seed, positions, rows)

    def sample_at(self, seed: int, position: int, item: int) -> list:
        """What becomes of one item: a list, of one sample unless there are filters or fan-out. The generators are seeded."""
        at, key = self._cached(item)
        if at is None:
            caches = [number for number, stage in enumerate(self.stages) if isinstance(stage, Cache)]
            values, at = self._first(seed, position, item, bool(caches))
            for number in caches:
                seeding.seed_generators(seed, item | _ITEMS)
                values = self._through(values, at, number, seed, position)
                at = number + 1
                if len(values) == 1:
                    self.stores[number].put(item, values[0][0])
            if caches:
                seeding.seed_generators(seed, position)
        else:
            values = [(key, True)]
            seeding.seed_generators(seed, position)
        values = self._through(values, at, len(self.stages), seed, position)
        return [with_valid(value, valid) for value, valid in values] if self.masked else [value for value, _ in values]

    def _cached(self, item: int):
        """(the stage behind the last cache that has the item, its sample there), or (None, None)."""
        for number in sorted(self.stores, reverse=True):
            found = self.stores[number].get(item)
            if found is not None:
                return number + 1, found[0]
        return None, None

    def _first(self, seed: int, position: int, item: int, fixed: bool):
        """([(sample, valid)], the stage that comes next): the source's own, or through the native prefix."""
        ops = self.stages[: self.prefix]
        if not ops:
            make = getattr(self.source, "sample_at", None)
            value = make(seed, position, item) if make else self.source[item]
            return [(value, True)], 0
        if ops[0].fields["op"] != "decode_rgb":
            leaves = self._produced(open_arrays, ops, seed, item if fixed else position, item)
            return [(self.source.assemble([leaf[0] for leaf in leaves]), True)], len(ops)
        if len(ops) == 1:
            from stoker.data import image

            stored = self.source[item]
            pixels = image.decode(stored["image"], path=self.source.path(item), gray16=ops[0].fields.get("gray16", "clip"))
            return [((numpy.ascontiguousarray(pixels.transpose(2, 0, 1)), stored["label"]), True)], 1
        leaves = self._produced(open_native, ops, seed, item if fixed else position, item, self.picture_cache)
        return [((leaves[0][0], int(leaves[1][0])), True)], len(ops)

    def _produced(self, opens, ops, seed: int, position: int, item: int, *how):
        if ("native", seed) not in self._open:
            self._open["native", seed] = opens(self.source, ops, seed, *how)
        return self._open["native", seed].produce(numpy.array([position], numpy.int64), numpy.array([item], numpy.int64))

    def _through(self, values: list, begin: int, end: int, seed: int, position: int) -> list:
        at = begin
        while at < end:
            stage = self.stages[at]
            if isinstance(stage, Map):
                values = [(stage.function(value), valid) for value, valid in values]
            elif isinstance(stage, FlatMap):
                values = [(inner, valid) for value, valid in values for inner in stage.function(value)]
            elif isinstance(stage, Filter) and stage.how == "window":
                values = [(value, valid) for value, valid in values if stage.function(value)]
            elif isinstance(stage, Filter) and stage.how == "mask":
                values = [(value, valid and bool(stage.function(value))) for value, valid in values]
            elif isinstance(stage, Op):
                run = [op for op in self.stages[at:end] if isinstance(op, Op)]
                run = run[: next((i for i, op in enumerate(self.stages[at:end]) if not isinstance(op, Op)), len(run))]
                from stoker.data.array_ops import apply_to_sample

                values = [(apply_to_sample(value, run, seed, position, self._open), valid) for value, valid in values]
                at += len(run) - 1
            at += 1
        return values

    def _windowed(self, seed: int, positions, rows: list):
        """Each window function over its windows; the windows of a unit are whole by construction."""
        batch, count = collated(rows, self.collate), len(rows)
        for function, size in self.windows:
            size = count if size is None else size
            parts = []
            for first in range(0, count, size):
                seeding.seed_generators(seed, positions[first] | _WINDOWS)
                whole = size >= count
                parts.append(function(batch if whole else sliced(batch, first, first + size)))
            batch = parts[0] if len(parts) == 1 else joined(parts)
        return batch

    def identity(self) -> str:
        """As a part of a mixture; `source` says whether it is known."""
        return self.described

    def describe(self) -> list:
        """(what, native, why) of each step, for explain()."""
        prefix = self.prefix
        steps = [(repr(self.source), False, "its samples go through Python")]
        for number, stage in enumerate(self.stages):
            native = number < prefix
            why = "by the native producer, in the Python worker" if native else ""
            if isinstance(stage, Op) and not native:
                why = "behind a Python step" if any(not isinstance(one, Op) for one in self.stages[:number]) else self.why
            steps.append((str(stage), native, why))
        if self.picture_cache is not None:
            steps.append((f"picture cache: {self.picture_cache.kind}", True, ""))
        steps.extend((f"map_batches of {size or 'the batch'}", False, "") for _, size in self.windows)
        return steps


class MixedPipes:
    """Pipes of one sample per item, by weight: the source that mix() makes. `sample_at` hands the position on."""

    def __init__(self, pipes, weights, seed: int, end: str, shuffle: bool = True):
        from stoker.data.fluent_build import samples_of

        self._parts = [samples_of(pipe) for pipe in pipes]
        self._mixture = Mixture(self._parts, weights, seed, end, shuffle)

    def __len__(self) -> int:
        return len(self._mixture)

    def sample_at(self, seed: int, position: int, item: int):
        source, index = self._mixture.at(item)
        return self._parts[source].sample_at(seed, position, index)[0]

    @property
    def sources(self) -> list:
        """What the pipes draw from."""
        return [part.source for part in self._parts]

    def identity(self) -> str:
        return self._mixture.identity()

    def __repr__(self) -> str:
        return repr(self._mixture)


def leading_ops(stages) -> list:
    """The ops before the first step that is Python, decode() the first of them."""
    if not stages or not isinstance(stages[0], Op) or stages[0].fields["op"] != "decode_rgb":
        return []
    count = next((i for i, stage in enumerate(stages) if not isinstance(stage, Op)), len(stages))
    return list(stages[:count])


def native_prefix(source, stages) -> tuple:
    """(how many leading ops a native producer does: decode() and those behind it where they fix the size, decode() alone where they
    do not, or those on pictures in arrays; why no more)."""
    from stoker.data import lowering

    decoding = leading_ops(stages)
    count = next((i for i, stage in enumerate(stages) if not isinstance(stage, Op)), len(stages))
    if len(decoding) > 1 and lowering.leave_size_open([op.fields for op in decoding]):
        return 1, "on arrays, since the ops leave pictures of different sizes"
    if decoding or not count:
        return len(decoding), ""
    from stoker.data.array_source import ArraySource

    if type(source) is not ArraySource or not source.has_pictures():
        return 0, "its samples are not rows of arrays that are pictures: uint8, of three channels, the first array or `image`"
    lowered = lowering.lower(source.with_transform(lowering.NativeOps([op.fields for op in stages[:count]])))
    return (count, "") if lowered.ops is not None else (0, lowered.why)


def open_arrays(source, ops, seed: int):
    """A producer of the plan that these ops on an ArraySource are."""
    from stoker.data.recipe import arrays_value

    plan = arrays_value(source.plan([op.fields for op in ops]), seed)
    return source.open_here(_native.pipeline.Plan.parse(json.dumps(plan)))


def open_native(source, ops, seed: int, picture_cache=None):
    """A producer of the plan that these ops of a PictureSource are."""
    from stoker.data.recipe import native_value

    fields = [op.fields for op in ops]
    output = "float32" if any(op["op"] == "to_float" for op in fields) else "uint8"
    plan = _native.pipeline.Plan.parse(json.dumps(native_value(source.plan_source(), fields, output, seed)))
    cache = picture_cache and picture_cache.native()
    try:
        source.manifest.save()
        return _native.pipeline.Producer.open(plan, b"", cache, interpreter.pillow())
    except OSError:  # no cache to be had
        return _native.pipeline.Producer.open(plan, source.manifest.bytes(), cache, interpreter.pillow())


def collated(rows: list, collate):
    if collate is None:
        try:
            return numpy_collate(rows)
        except ValueError as error:
            raise ValueError(
                f"samples of different shapes cannot be stacked ({error}): crop or resize((height, width)) them to one size (a single "
                "number is the short side's), or batch(…, collate='ragged')"
            ) from None
    return ragged(rows) if collate == "ragged" else collate(rows)


def ragged(rows: list):
    """As collate, with arrays left as a list of them."""
    first = rows[0]
    if isinstance(first, dict):
        return {key: ragged([row[key] for row in rows]) for key in first}
    if isinstance(first, (tuple, list)):
        return [ragged(list(values)) for values in zip(*rows, strict=True)]
    return list(rows) if isinstance(first, numpy.ndarray) else numpy_collate(rows)


def with_valid(value, valid: bool):
    valid = numpy.bool_(valid)
    if isinstance(value, dict):
        return {**value, "valid": valid}
    return (*value, valid) if isinstance(value, (tuple, list)) else (value, valid)


def sliced(batch, first: int, last: int):
    if isinstance(batch, dict):
        return {key: sliced(value, first, last) for key, value in batch.items()}
    if isinstance(batch, list) and batch and isinstance(batch[0], (numpy.ndarray, list, dict)):
        return [sliced(value, first, last) for value in batch]
    return batch[first:last]


def joined(parts: list):
    first = parts[0]
    if isinstance(first, dict):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, numpy.ndarray):
        return numpy.concatenate(parts)
    if isinstance(first, (list, tuple)) and first and isinstance(first[0], (numpy.ndarray, list, dict)):
        return [joined(list(values)) for values in zip(*parts, strict=True)]
    if isinstance(first, list):
        return [value for part in parts for value in part]
    raise TypeError(f"windows give {type(first).__name__}, which cannot be joined to a batch: give arrays, lists or dicts of them")


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
