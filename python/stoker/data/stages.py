# SPDX-License-Identifier: Apache-2.0
"""What samples cost, by stage, and what follows from it: which resource binds, how much the others have left, and how fast
the loader can be. Values, apart from StageTimes, which is confined."""

import time
from dataclasses import asdict, dataclass, field

from stoker import _native
from stoker.data.explain import counted, megabytes
from stoker.data.feed_stats import FeedStats

LINK_MATTERS = 0.1  # share of the time that the loop took
_MORE_THAN_MADE = 1.5  # times the predicted rate, which is a mean and may be off by some
TELL_EVERY_S = 0.005  # what is not told when a loader ends is not counted


class StageTimes:
    """CPU seconds of this process by stage of a Python plan: begin(), reached() at the end of each stage, end()."""

    def __init__(self):
        self._stages = dict.fromkeys(("dataset", "collate", "write", "hash"), 0.0)
        self._samples = self._made_bytes = 0
        self._busy_s = self._cpu_s = 0.0
        self._begun_cpu = self._begun = self._at = 0.0
        self._told = 0.0

    def begin(self) -> None:
        self._begun, self._begun_cpu = time.monotonic(), time.process_time()
        self._at = self._begun_cpu

    def fetched(self) -> None:
        self.reached("dataset")

    def reached(self, stage: str) -> None:
        now = time.process_time()
        self._stages[stage] += now - self._at
        self._at = now

    def end(self, samples: int, made_bytes: int) -> None:
        self._samples += samples
        self._made_bytes += made_bytes
        self._busy_s += time.monotonic() - self._begun
        self._cpu_s += time.process_time() - self._begun_cpu

    def are_due(self) -> bool:
        now = time.monotonic()
        due = now - self._told >= TELL_EVERY_S
        if due:
            self._told = now
        return due

    def to_dict(self) -> dict:
        """As TIMES of docs/formats/wire.md."""
        return {
            "samples": self._samples,
            "read_bytes": 0,
            "made_bytes": self._made_bytes,
            "busy_s": self._busy_s,
            "cpu_s": self._cpu_s,
            "stages": [{"name": name, "cpu_s": cpu_s} for name, cpu_s in self._stages.items() if cpu_s > 0],
        }


@dataclass
class Work:
    """What those who made samples have told, added up."""

    hands: int = 0  # threads that make samples; 0: of other machines
    inline: bool = False  # on the training loop's own thread
    samples: int = 0
    read_bytes: int = 0
    made_bytes: int = 0
    busy_s: float = 0.0
    cpu_s: float = 0.0
    client_cpu_s: float = 0.0  # of the thread in the training process that receives
    stages: dict = field(default_factory=dict)  # name -> CPU seconds, in order
    skipped: int = 0
    substituted: int = 0
    other_formats: int = 0
    feed: FeedStats | None = None  # None: no feed group
    here: bool = False  # the hands are threads of the training process, whose CPU is in that process's own
    errors: dict = field(default_factory=dict)  # kind -> how often

    @classmethod
    def of(cls, hands: int, inline: bool, told: list, client_cpu_s: float = 0.0, here: bool = False) -> "Work":
        work = cls(hands, inline, client_cpu_s=client_cpu_s, here=here)
        for one in told:
            stages = {stage["name"]: stage["cpu_s"] for stage in one["stages"]}
            numbers = (one["samples"], one["read_bytes"], one["made_bytes"], one["busy_s"])
            odd = (one.get("skipped", 0), one.get("substituted", 0), one.get("other_formats", 0))
            work += cls(hands, inline, *numbers, one.get("cpu_s", sum(stages.values())), 0.0, stages, *odd)
        return work

    def __add__(self, other: "Work") -> "Work":
        stages = dict(self.stages)
        for name, cpu_s in other.stages.items():
            stages[name] = stages.get(name, 0.0) + cpu_s
        return Work(
            max(self.hands, other.hands),
            self.inline or other.inline,
            self.samples + other.samples,
            self.read_bytes + other.read_bytes,
            self.made_bytes + other.made_bytes,
            self.busy_s + other.busy_s,
            self.cpu_s + other.cpu_s,
            self.client_cpu_s + other.client_cpu_s,
            stages,
            self.skipped + other.skipped,
            self.substituted + other.substituted,
            self.other_formats + other.other_formats,
            other.feed.after(self.feed) if other.feed else self.feed,
            self.here or other.here,
            {kind: self.errors.get(kind, 0) + other.errors.get(kind, 0) for kind in {**self.errors, **other.errors}},
        )


@dataclass(frozen=True)
class LoaderStats:
    """What loader.stats() answers. Times are means; a figure that is not known (yet) is None."""

    samples: int  # handed to the training loop
    skipped: int  # damaged ones: rows of zeros (on_error="skip")
    substituted: int  # damaged ones: another item in their place (on_error="substitute")
    other_formats: int  # pictures that Pillow read, in a process of its own
    ops: list  # {"name", "cpu_ms", "bytes"} per sample; bytes that the stage reads or writes, where it moves any
    limits: dict  # resource -> samples per second that it alone would allow
    binds: str | None  # the resource with the lowest limit
    slack: dict  # resource -> share of it that is left unused at the predicted rate
    predicted_per_s: float | None
    measured_per_s: float | None
    waiting: float | None  # share of its time that the training loop waited
    errors: dict  # what went wrong in workers and the feed: kind (docs/formats/telemetry.md) -> how often
    feed: FeedStats | None  # None: no feed group

    @classmethod
    def of(cls, meter, work: Work) -> "LoaderStats":
        limits = _limits(meter, work)
        known = bool(limits) and (work.samples > 0 or _feed_supply(work) > 0)
        binds = min(limits, key=limits.get) if known else None
        predicted = limits[binds] if known else None
        measured, waiting = _ratio(meter.step_samples, meter.step_s), _ratio(meter.wait_s, meter.step_s)
        if _was_made_ahead(meter, work, measured, predicted):
            limits, known, binds, predicted, measured, waiting = {}, False, None, None, None, None
        return cls(
            samples=meter.samples,
            skipped=work.skipped,
            substituted=work.substituted,
            other_formats=work.other_formats,
            ops=_ops(work, meter),
            limits=limits,
            binds=binds,
            slack={name: 1 - predicted / limit for name, limit in limits.items()} if known else {},
            predicted_per_s=predicted,
            measured_per_s=measured,
            waiting=waiting,
            errors=_errors(work),
            feed=work.feed,
        )

    def to_dict(self) -> dict:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"  {counted(self.samples, 'sample')} so far; {self._told_of_cost()}"]
        for op in self.ops:
            moved = f"  {op['bytes']:12,.0f} bytes" if op["bytes"] is not None else ""
            lines.append(f"    {op['cpu_ms']:9.4f} ms  {op['name']}{moved}")
        if self.skipped or self.substituted:
            lines.append(f"    damaged: {self.skipped} skipped, {self.substituted} substituted")
        if self.other_formats:
            lines.append(f"    other formats: {self.other_formats} read by Pillow")
        if others := [f"{count} {kind.replace('_', ' ')}" for kind, count in self.errors.items() if kind not in ("skipped", "substituted")]:
            lines.append(f"    went wrong: {', '.join(others)}")
        if self.feed is not None:
            lines += self.feed.lines()
        for name, limit in self.limits.items():
            left = "binds" if name == self.binds else f"{self.slack[name]:.0%} left" if self.slack else ""
            lines.append(f"    {limit:9.1f} samples/s at most by {name}{': ' + left if left else ''}")
        if self.measured_per_s is not None:
            lines.append(f"    {self.measured_per_s:9.1f} samples/s measured, waiting {self.waiting:.0%} of the time")
        elif self.samples:
            lines.append("    samples/s: not measured yet, what was taken so far is the first batch or was made meanwhile")
        return "\n".join(lines)

    def _told_of_cost(self) -> str:
        if self.ops:
            return "CPU per sample:"
        return "what they cost is not known (yet)" if self.feed is None else "their CPU is the feed workers', which `stoker advise` tells"


def _was_made_ahead(meter, work: Work, measured: float | None, predicted: float | None) -> bool:
    """Whether the rate so far is that of taking what others made while the first batches were waited for: it is more than they can
    make, and that wait was longer than all steps together."""
    made_by_others = (work.hands or work.feed) and not work.inline
    if not made_by_others or measured is None or meter.step_s > meter.first_wait_s:
        return False
    return predicted is None or measured > _MORE_THAN_MADE * predicted


def _errors(work: Work) -> dict:
    """As told by kind; those that dealt with damaged samples on the training process's own thread too."""
    dealt_with = {"skipped": work.skipped, "substituted": work.substituted}
    return {**work.errors, **{kind: count for kind, count in dealt_with.items() if count}}


def _ops(work: Work, meter) -> list:
    if work.samples == 0:
        return []
    read, made = work.read_bytes / work.samples, work.made_bytes / work.samples
    moved = {"read": read, "hash": made, "write": made}
    ops = [
        {"name": name, "cpu_ms": 1e3 * cpu_s / work.samples, "bytes": moved.get(name)} for name, cpu_s in work.stages.items()
    ]
    if not work.inline:
        # All that making, hashing and writing is not: requests, answers, order, at both ends.
        rest = max(0.0, work.cpu_s - sum(work.stages.values())) / work.samples
        rest += work.client_cpu_s / max(meter.samples, 1)
        ops.append({"name": "hand-over", "cpu_ms": 1e3 * rest, "bytes": made})
    return ops


def _limits(meter, work: Work) -> dict:
    """Samples per second by what could bind. A limit by a time of next to nothing is left out: it binds never."""
    own_s = _ratio(meter.step_s - meter.wait_s, meter.step_samples)  # the training loop's own time per sample
    busy_s = _ratio(work.busy_s, work.samples)
    if own_s is None or (busy_s is None and work.hands):
        return {}
    if work.inline:
        return _inverse({"this thread (making samples and the training loop)": own_s + busy_s})
    costs = {"the training loop": own_s}
    if work.hands:
        costs[f"{'threads' if work.here else 'workers'} ({work.hands})"] = busy_s / work.hands
    if work.hands or work.feed:  # which receives; spare workers make way for it
        cpu_s = meter.step_cpu_s / meter.step_samples + (work.cpu_s / work.samples if work.hands and not work.here else 0)
        cores = _native.feed.allowed_cpu()
        costs[f"cores ({cores:.3g})"] = cpu_s / cores
    if (supply := _feed_supply(work)) > 0:
        costs[f"feed workers ({sum(one['workers'] for one in work.feed.sizing)})"] = 1 / supply
    if work.feed and work.feed.starved_s > LINK_MATTERS * meter.step_s:
        # While it was waited for it carried what it can.
        rate = work.feed.bytes_received / work.feed.starved_s
        spare = min(work.feed.spare.samples, meter.samples)  # did not come over it
        per_s = (meter.samples - spare) / work.feed.starved_s + spare / meter.step_s
        costs[f"the link ({megabytes(rate)})"] = 1 / per_s
    return _inverse(costs)


def _feed_supply(work: Work) -> float:
    """Samples per second that the CPUs of the feed group allow, as its dispatcher measures them, with what spare cores of the
    trainer add now; 0: not known."""
    told = work.feed.sizing if work.feed else []
    return max((one["supply_per_s"] + one.get("spare_per_s", 0.0) for one in told), default=0.0)


def _inverse(costs: dict) -> dict:
    return {name: 1 / cost for name, cost in costs.items() if cost > 1e-9}


def _ratio(part: float, whole: float):
    return part / whole if whole > 0 else None
