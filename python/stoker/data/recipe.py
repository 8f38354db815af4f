# SPDX-License-Identifier: Apache-2.0
"""From a loader's arguments to what makes its batches: the plan (native where it can be), and the engine that runs it.

Plans differ between epochs only by their seed. Confined to the loader's thread.
"""

import functools
import hashlib
import json
import os
import weakref
from dataclasses import dataclass
from importlib import metadata

from stoker import _native
from stoker.data import engines, forecast, interpreter, kept_plans, lowering, samples, source, spare_cores
from stoker.data import plan as plans
from stoker.data.explain import Explanation
from stoker.data.identity import identity_of
from stoker.data.lowering import Step
from stoker.data.stages import LoaderStats, Work
from stoker.data.telemetry import Meter, Telemetry


@dataclass
class Plan:
    """A plan with its identity. `text` is canonical."""

    text: str
    hash: str
    name: str
    libraries: dict


class Recipe:
    """Belongs to its loader, which it and its engines do not keep alive: a loader that is dropped ends its workers at once,
    and does not wait for a collection of cycles."""

    def __init__(self, loader):
        self._loader_of = weakref.ref(loader)
        self._lowered = None
        self._libraries = None
        self._plans = {}
        self._manifest = None
        self._meter = None
        self._telemetry = None
        self._ended_cpu_s = self._ended_threads_cpu_s = 0.0
        self._ended_work = Work()
        self._engines = set()
        self._inline = None  # the engine in this process that was made last
        self._pillow = None  # what it reads other formats with

    @property
    def _loader(self):
        return self._loader_of()

    # ---- plans

    def plan(self, seed: int) -> Plan:
        """The plan of that seed. Lists the folder and reads versions the first time."""
        if seed not in self._plans:
            lowered = self._lower()
            self.check()
            if lowered.ops is not None:
                made = self._native_plan(lowered, seed)
            else:
                made = self._python_plan(seed)
            if len(self._plans) > 64:
                self._plans.clear()
            self._plans[seed] = made
        return self._plans[seed]

    def check(self) -> None:
        """Refuses arguments that a plan of this dataset cannot honour."""
        loader = self._loader
        if loader.on_error != "raise" or loader.gray16 != "clip" or loader.picture_cache is not None:
            lowered = self._lower()
            self._check_on_error(lowered)
            self._check_gray16(lowered)
            self._check_picture_cache(lowered)

    def _check_on_error(self, lowered) -> None:
        how = self._loader.on_error
        if how != "raise" and (lowered.ops is None or self._arrays() is not None):
            why = lowered.why or "the rows of arrays cannot be damaged"
            raise NotImplementedError(f"on_error={how!r} is for pictures of native plans, and this is none: {why}")

    def _check_gray16(self, lowered) -> None:
        how = self._loader.gray16
        if how != "clip" and (lowered.ops is None or self._arrays() is not None):
            why = lowered.why or "rows of arrays are not decoded"
            raise NotImplementedError(f"gray16={how!r} is for stored pictures of native plans, and this is none: {why}")

    def _check_picture_cache(self, lowered) -> None:
        if self._loader.picture_cache is not None and (lowered.ops is None or self._arrays() is not None):
            why = lowered.why or "rows of arrays are not decoded"
            raise NotImplementedError(f"picture_cache is for stored pictures of native plans, and this is none: {why}")

    def is_native(self) -> bool:
        return self._lower().ops is not None

    def _lower(self):
        if self._lowered is None:
            self._lowered = _lower(self._loader)
        return self._lowered

    def _python_plan(self, seed: int) -> Plan:
        loader = self._loader
        if self._libraries is None:
            self._libraries = plans.libraries()
        version = str(loader.version) if loader.version is not None else _contents_of(loader.dataset)
        items = loader._items if loader._items is not None else 1 << 62
        value = plans.python_plan(loader.dataset, loader.collate_fn, items, version, seed, self._libraries)
        return _frozen(value)

    def _native_plan(self, lowered, seed: int) -> Plan:
        if self._arrays() is not None:
            return _frozen(arrays_value(lowered.source.plan(lowered.ops if lowered.arrays == "pictures" else None), seed))
        if self._manifest is None:
            if lowered.source is not None:
                self._manifest = lowered.source.manifest
            else:
                self._manifest = source.files(lowered.samples, lowered.classes, lowered.root)
        of_files = {
            "kind": "files",
            "root": os.path.abspath(lowered.root),
            "manifest": self._manifest.hash,
            "items": self._manifest.items,
        }
        of_source = of_files if lowered.source is None else lowered.source.plan_source(lowered.mask_dtype)
        value = native_value(of_source, lowered.ops, lowered.output, seed)
        if self._loader.on_error != "raise":
            value["on_error"] = self._loader.on_error
        return _frozen(value)

    def keep(self, plan: Plan) -> None:
        """Leaves what replay needs in the cache: a cursor holds no more than the plan's hash."""
        kept_plans.keep(plan.hash, plan.text, self._manifest)

    def attachment(self, mode: str, travels: bool) -> bytes:
        """What goes to workers beside the plan. `travels`: to other machines, which do not share our cache."""
        loader = self._loader
        arrays = self._arrays()
        if arrays is not None:
            memory = arrays.in_memory()
            if memory and os.environ.get("STOKER_FEED"):
                raise ValueError(
                    f"{', '.join(memory)}: arrays in memory cannot go to a feed group; save them as .npy in an input channel"
                )
            return arrays.places()
        if not self.is_native():
            return samples.bundle(loader.dataset, loader.collate_fn, loader.worker_init_fn, mode)
        if not travels:
            try:
                self._manifest.save()
                return b""
            except OSError:  # no cache to be had
                pass
        return self._manifest.bytes()

    def _arrays(self):
        """The source of arrays whose rows are the samples, or None."""
        lowered = self._lower()
        return lowered.source if lowered.ops is not None and lowered.arrays else None

    def open_producer(self, plan: Plan):
        """A native plan in this process."""
        parsed = _native.pipeline.Plan.parse(plan.text)
        arrays = self._arrays()
        if arrays is not None:
            return arrays.open_here(parsed)
        cache = self._loader.picture_cache
        self._pillow = interpreter.pillow()  # kept, so that its processes last for more than one epoch
        attachment = self.attachment(samples.BATCH, True)
        return _native.pipeline.Producer.open(parsed, attachment, cache and cache.native(), self._pillow)

    def assemble(self, leaves: list):
        """A native batch from its leaves: NumPy arrays, or tensors where torch is loaded."""
        torch = self._loader._torch
        if torch is not None:
            # Through "<u8", the uint64 of an array from DLPack is the one that torch knows.
            leaves = [torch.from_numpy(leaf.view("<u8") if leaf.dtype.char == "Q" else leaf) for leaf in leaves]
        arrays = self._arrays()
        return list(leaves) if arrays is None else arrays.assemble_batch(leaves)

    def explain(self, helpers=None, cores=None, link=None) -> Explanation:
        spare = spare_cores.wanted(self._loader.spare_cores)
        with_helpers = forecast.of(self.meter(), self.work(), helpers, cores, link, spare)
        self._look_again()
        lowered = self._lower()
        plan = self.plan(0)
        steps = list(lowered.steps)
        if lowered.ops is None:  # the whole dataset runs as Python, known or not
            steps = [Step(one.what, False, "known, and native where all others are") if one.native else one for one in steps]
            steps.append(Step(f"collate: {plans.full_name(self._loader.collate_fn)}", False))
        cache = self._loader.picture_cache
        if cache is not None:
            feed = os.environ.get("STOKER_FEED")
            steps.append(Step("picture cache", not feed, "feed groups keep none" if feed else cache.describe(plan.text)))
        if self._loader._batch_transform is not None:
            steps.append(Step(repr(self._loader._batch_transform), False, "on the training process, once a batch"))
        return Explanation(
            native=lowered.ops is not None,
            reason=lowered.why,
            steps=steps,
            reference=_reference(bool(lowered.ops)),
            runs=self._where(),
            stats=self.stats(),
            plan=json.loads(plan.text),
            forecasts=with_helpers,
        )

    def stats(self) -> LoaderStats:
        return LoaderStats.of(self.meter(), self.work())

    def _where(self) -> str:
        feed = os.environ.get("STOKER_FEED")
        if feed:
            spare = "" if spare_cores.wanted(self._loader.spare_cores) == 0 else ", and by spare cores of this machine"
            return f"made by the feed group found through {feed}{spare}"
        workers = self._loader.num_workers
        if workers == 0:
            return "made in this process"
        if self._on_threads():
            return f"made by {workers} thread{'s' if workers > 1 else ''} of this process"
        return f"made by {workers} worker process{'es' if workers > 1 else ''}"

    # ---- engines

    def _look_again(self) -> None:
        """What was changed since the last epoch (a transform, collate_fn) counts from this one on, as with torch."""
        self._plans.clear()
        if self._lowered is None:
            return
        now = _lower(self._loader)
        if (now.ops is None) != (self._lowered.ops is None):
            self._libraries = self._manifest = None
        if now.samples is not None and (now.root, now.samples) != (self._lowered.root, self._lowered.samples):
            self._manifest = None
        if now.source is not self._lowered.source:
            self._manifest = None
        self._lowered = now

    def engine(self, seed: int, counted: bool):
        """Of the epoch that begins. `counted`: the stream has a digest so far, which is to go on."""
        self._look_again()
        plan = self.plan(seed)
        loader = self._loader
        if loader.num_workers == 0 and not os.environ.get("STOKER_FEED"):
            kind = engines.InlineNative if self.is_native() else engines.InlinePython
            self._retire_inline()
            self._inline = kind(loader, plan, seed, self.meter(), self._convert(), counted or self._hashed())
            return self._inline
        return self._engine_ahead(plan)

    def _retire_inline(self) -> None:
        if self._inline is not None:
            self._ended_work += self._inline.work()
        self._inline = None

    def work(self) -> Work:
        """What the samples of all epochs so far have cost."""
        total = self._ended_work
        for engine in [*self._engines, *filter(None, [self._inline])]:
            total = total + engine.work()
        return total

    def _on_threads(self) -> bool:
        """Whether rows are memory of this process, so that its own threads make them and no workers."""
        arrays = self._arrays()
        return arrays is not None and not os.environ.get("STOKER_FEED") and arrays.lies_in_memory()

    def _engine_ahead(self, plan: Plan):
        """An engine that is free, of the same plan and code; else a new one."""
        from stoker.data.feed_engine import FeedEngine
        from stoker.data.thread_engine import ThreadEngine

        feed = bool(os.environ.get("STOKER_FEED"))
        for engine in list(self._engines):
            if engine.busy:
                continue
            if engine.plan.text == plan.text and engine.serves(self.attachment):
                engine.acquire(self._convert())
                return engine
            engine.close()
        keeps = self._loader.persistent_workers or feed
        kind = ThreadEngine if self._on_threads() else FeedEngine
        engine = kind(self, self._loader, plan, self.meter(), self._convert(), keeps)
        self._engines.add(engine)
        return engine

    def has_idle(self, but) -> bool:
        """Whether another engine waits already: one is kept, not as many as iterators ever lived at once."""
        return any(not engine.busy for engine in self._engines if engine is not but)

    def forget(self, engine) -> None:
        if engine in self._engines:
            self._engines.discard(engine)
            self._ended_cpu_s += engine.cpu_s()
            self._ended_threads_cpu_s += engine.threads_cpu_s()
            self._ended_work += engine.work()

    @staticmethod
    def _hashed() -> bool:
        """Whether batches made on the training thread are hashed as well: somebody will compare digests."""
        return bool(os.environ.get("STOKER_TELEMETRY_DIR") or os.environ.get("STOKER_AUDIT") == "1")

    def finish(self, batch, seed: int, first: int):
        """The last of what is done to a batch, where it depends on its place in the stream."""
        transform = self._loader._batch_transform
        return batch if transform is None else self._pinning()(transform.apply(batch, seed, first))

    def _convert(self):
        """What engines do to a finished batch on its way to the training loop."""
        return self._pinning() if self._loader._batch_transform is None else lambda batch: batch

    def _pinning(self):
        loader = self._loader
        torch = loader._torch
        if not loader.pin_memory or torch is None or not torch.accelerator.is_available():
            return lambda batch: batch
        from torch.utils.data._utils.pin_memory import pin_memory

        device = torch.accelerator.current_accelerator().type
        return (lambda batch: batch) if device == "mps" else (lambda batch: pin_memory(batch, device))

    def meter(self) -> Meter:
        if self._meter is None:
            self._meter = Meter(self._loader.batch_size)
            self._meter.feed = bool(os.environ.get("STOKER_FEED"))
            folder = os.environ.get("STOKER_TELEMETRY_DIR")
            if folder:
                self._telemetry = Telemetry(folder, self._meter, self._workers_cpu_s, self._threads_cpu_s, self._workers_work)
        return self._meter

    def _workers_work(self) -> Work:
        """work() without that of the training process's own threads, which only these may look at."""
        total = self._ended_work
        for engine in list(self._engines):
            total = total + engine.work()
        return total

    def _workers_cpu_s(self) -> float:
        return self._ended_cpu_s + sum(engine.cpu_s() for engine in list(self._engines))

    def _threads_cpu_s(self) -> float:
        return self._ended_threads_cpu_s + sum(engine.threads_cpu_s() for engine in list(self._engines))

    def close(self) -> None:
        for engine in list(self._engines):
            engine.close()
        self._engines.clear()
        self._retire_inline()
        self._pillow = None
        if self._telemetry is not None:
            self._telemetry.close()


def _lower(loader):
    lowered = lowering.lower(loader.dataset, loader.gray16)
    if lowered.ops is None:
        return lowered
    why = ""
    if loader.collate_fn is not loader._default_collate() and loader._auto_collation:
        why = f"collate_fn is {plans.full_name(loader.collate_fn)}"
    elif not loader._auto_collation:
        why = "batch_size=None: samples are not batched"
    elif loader.worker_init_fn is not None and loader.num_workers > 0:
        why = "worker_init_fn is Python that must run in Python workers"
    if why:
        lowered.ops, lowered.why = None, why
    return lowered


def _contents_of(dataset) -> str:
    """Of our own sources and of datasets with `identity()`; others say `version=`."""
    known = identity_of(dataset)
    return hashlib.sha256(known.encode()).hexdigest()[:32] if known else ""


def _reference(has_ops: bool) -> dict:
    """The libraries whose pixels a native plan's ops have; plain rows of arrays have none."""
    if not has_ops:
        return {}
    found = {}
    for name in ("torchvision", "pillow"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache  # reading it takes a millisecond, once an epoch
def _pillow_major() -> str:
    """Of the two orders of resize passes that Pillow has had, the installed one's."""
    try:
        return "12" if int(metadata.version("pillow").partition(".")[0]) < 13 else "13"
    except (metadata.PackageNotFoundError, ValueError):
        return "13"


def native_value(of_source: dict, ops: list, output: str, seed: int) -> dict:
    """A native plan on the libraries of this process."""
    return {
        "format": plans.FORMAT,
        "kind": "native",
        "source": of_source,
        "ops": ops,
        "output": output,
        "seed": seed,
        "libraries": json.loads(_native.pipeline.native_libraries(_pillow_major())),
    }


def arrays_value(of_arrays: dict, seed: int) -> dict:
    """A plan of arrays; its rows that are copied depend on no library of pixels."""
    named = json.loads(_native.pipeline.native_libraries(_pillow_major()))
    if "pictures" not in of_arrays:
        named = {"stoker": named["stoker"]}
    return {"format": plans.FORMAT, **of_arrays, "seed": seed, "libraries": named}


def _frozen(value: dict) -> Plan:
    parsed = _native.pipeline.Plan.parse(json.dumps(value))
    name = value.get("name") or ("arrays" if value["kind"] == "arrays" else "image files")
    return Plan(parsed.json, parsed.hash, name, value["libraries"])
