# SPDX-License-Identifier: Apache-2.0
"""What a loader's feed group does, as `loader.stats().feed` tells it. Values."""

import json
from dataclasses import dataclass, fields, replace

from stoker.data.explain import counted


@dataclass(frozen=True)
class FeedWorkerStats:
    """One worker as it is now."""

    name: str  # HOST:PORT
    ready: bool
    samples_per_s: float
    samples: int  # so far
    asked: int  # and not yet answered


_SPARE_STATES = {
    "part": "they are about to begin",
    "unneeded": "the loop does not wait for batches",
    "short": "they step back, the trainer waits for cores",
    "busy": "they step back, the trainer uses its cores",
    "paused": "they stay away for a while, having been in the trainer's way",
}


@dataclass(frozen=True)
class SpareStats:
    """Spare cores of the trainer's own machine. Samples and CPU time from the beginning, the rest as it is now."""

    state: str = "off"  # or "unneeded", "part" (they take part), "short", "busy", "paused", "ended"
    why: str = ""  # of "ended"
    cores: float = 0.0  # that they may use
    samples: int = 0
    cpu_s: float = 0.0

    def after(self, before: "SpareStats") -> "SpareStats":
        return replace(self, samples=before.samples + self.samples, cpu_s=before.cpu_s + self.cpu_s)

    def line(self) -> str:
        now = f"{self.cores:.2g} cores now" if self.cores else _SPARE_STATES.get(self.state, f"they take no part: {self.why}")
        return f"    spare cores of the trainer: {self.samples} samples; {now}"


@dataclass(frozen=True)
class FeedStats:
    """Workers and bytes as they are now; counts from the beginning."""

    workers: list  # of FeedWorkerStats
    sizing: list  # per group that is fed: {"group", "wanted", "reason", …} as docs/formats/wire.md
    bytes_held: int  # of batches that are on their way, wait, or are kept by the user
    bytes_received: int = 0
    hedged: int = 0  # asked of another worker because the first was late
    retried: int = 0
    lost: int = 0  # workers
    corrupt: int = 0  # damaged on the way
    disagreed: int = 0  # answers of two workers
    starved_s: float = 0.0  # an answer had begun to come, and the wire had nothing more of it
    spare: SpareStats = SpareStats()

    @classmethod
    def of(cls, stats: dict) -> "FeedStats":
        """From a feed client's stats()."""
        workers = [
            FeedWorkerStats(one["name"], one["ready"], one["rows_per_s"], one["rows"], one["outstanding_rows"])
            for one in stats["endpoints"]
        ]
        sizing, spare = json.loads(stats["sizing"] or "[]"), SpareStats(**stats["spare"])
        return cls(workers, sizing, stats["slot_bytes"], *(stats[name] for name in _COUNTS), spare)

    def after(self, before: "FeedStats | None") -> "FeedStats":
        """With the counts of a client that was there before."""
        if before is None:
            return self
        counts = {name: getattr(before, name) + getattr(self, name) for name in _COUNTS}
        return replace(self, spare=self.spare.after(before.spare), **counts)

    def lines(self) -> list:
        told = [
            f"    {one.samples_per_s:9.1f} samples/s of feed worker {one.name}, {one.samples} so far" + ("" if one.ready else ", not ready")
            for one in self.workers
        ]
        told += [f"    {counted(one['wanted'], 'worker', '9d')} wanted{' of ' + one['group'] if one['group'] else ''}: {one['reason']}" for one in self.sizing]
        if self.spare.state != "off":
            told.append(self.spare.line())
        counts = ", ".join(f"{getattr(self, name)} {name}" for name in ("hedged", "retried") if getattr(self, name))
        return [*told, f"    {self.bytes_received:,} bytes received{'; ' + counts if counts else ''}"]


_COUNTS = [one.name for one in fields(FeedStats)][3:-1]
