# SPDX-License-Identifier: Apache-2.0
"""How fast a training loop would be with so many feed helpers, from what its loader has measured: alone, before it has any, or
fed. Pure, but for the question how many cores this machine has."""

import contextlib
from dataclasses import dataclass, replace

from stoker import _native
from stoker.data.explain import counted, megabytes
from stoker.data.stages import LINK_MATTERS, Work

TABLE = (1, 2, 4, 8)  # helpers that explain() tells of
NEARLY = 0.95
USED_WITH_SPARE = 0.9  # of a machine's cores, by its trainer and spare workers together (src/feed/slack.h)
# CPU seconds a byte at either end of TCP, hash included, for loops that have not measured it yet.
SEND_S, RECEIVE_S = 0.25e-9, 0.25e-9


@dataclass(frozen=True)
class Forecast:
    """What loader.explain(helpers=N) answers for one N."""

    helpers: int
    cores: float | None  # of each; None: as many as the present ones have
    per_s: float  # samples a second
    binds: str  # which of the limits
    limits: dict  # resource -> samples a second that it alone would allow

    def __str__(self) -> str:
        return f"{counted(self.helpers, 'helper', '9d')}: {self.per_s:9.1f} samples/s, at most by {self.binds}"


def of(meter, work: Work, helpers=None, cores=None, link=None, spare: float | None = 0.0) -> list[Forecast]:
    """What explain() tells: of the helpers that it is asked about, else of a few where enough is known."""
    if (helpers, cores, link) != (None, None, None):
        return forecasts(meter, work, helpers, cores, link, spare)
    with contextlib.suppress(RuntimeError):
        return forecasts(meter, work, TABLE, spare=spare)
    return []


def named(helpers, cores, link) -> str:
    """Which of explain()'s arguments were given, for its errors."""
    asked = {"helpers": helpers, "cores": cores, "link": link}
    return ", ".join(f"{name}=" for name, value in asked.items() if value is not None)


def forecasts(
    meter, work: Work, helpers, cores: float | None = None, link: float | None = None, spare: float | None = 0.0
) -> list[Forecast]:
    """One Forecast for each of `helpers` (a number, or several; None: TABLE) of `cores` cores each (default: as many as this machine's loader may use, or as
    the present helpers have) behind a link of `link` bytes a second (default: as measured where the loop waited for it, else no limit), with
    `spare` cores of this machine taking part (None: what the loop leaves).

    ValueError for what makes no sense; RuntimeError while too little is measured."""
    given = named(helpers, cores, link)
    helpers = TABLE if helpers is None else helpers
    counts = [helpers] if isinstance(helpers, int) else list(helpers)
    if not counts or any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in counts):
        raise ValueError(f"helpers={helpers!r}: a whole number of at least 1, or several, are needed")
    for name, value in (("cores", cores), ("link", link)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < float("inf")):
            raise ValueError(f"{name}={value!r}: a positive number is needed")
    if meter.step_samples == 0:
        raise RuntimeError(f"nothing has been measured yet: explain({given}) needs a loader that some batches were taken of")
    rates = _fed(meter, work, cores, spare) if work.feed else _alone(meter, work, cores, spare, given)
    return [rates.forecast(count, link) for count in counts]


@dataclass(frozen=True)
class _Rates:
    """What does not depend on the number of helpers; seconds and bytes are per sample."""

    each_per_s: float  # that one helper's CPU allows
    cores: float | None
    loop_s: float
    here_cpu_s: float  # of this process, once it is fed
    receive_cpu_s: float  # of that, the thread that receives
    bytes: float
    link: float | None  # bytes a second
    make_s: float  # CPU time of a sample that is made here
    spare: float | None  # cores of this machine that take part; None: what the loop leaves
    loop: str = "the training loop"

    def _supply(self, helpers: int, here: float) -> tuple:
        """(what makes the samples, samples a second)."""
        by_helpers = helpers * self.each_per_s
        together = by_helpers
        if self.spare != 0 and self.make_s > 0:
            # At r samples a second the loop leaves 0.9 · here − r · here_cpu_s, which makes r − by_helpers.
            together = (by_helpers * self.make_s + USED_WITH_SPARE * here) / (self.make_s + self.here_cpu_s)
            if self.spare is not None:
                together = min(together, by_helpers + self.spare / self.make_s)
        if together <= by_helpers:
            return f"the helpers ({helpers})", by_helpers
        return f"the helpers ({helpers}) and spare cores", together

    def forecast(self, helpers: int, link: float | None) -> Forecast:
        here = _native.feed.allowed_cpu()
        link = link or self.link
        makers, per_s = self._supply(helpers, here)
        costs = {
            makers: 1 / per_s,
            self.loop: self.loop_s,
            f"this machine's cores ({here:.3g})": self.here_cpu_s / here,
            "the thread that receives": self.receive_cpu_s,
        }
        if link:
            costs[f"the link ({megabytes(link)})"] = self.bytes / link
        limits = {name: 1 / cost for name, cost in costs.items() if cost > 1e-9}
        binds = min(limits, key=limits.get)
        return Forecast(helpers, self.cores, limits[binds], binds, limits)


def _alone(meter, work: Work, cores: float | None, spare: float | None, given: str) -> _Rates:
    if work.samples == 0 or work.cpu_s <= 0:
        raise RuntimeError(f"what samples cost has not been told yet: explain({given}) needs a loader that some batches were taken of")
    moved, made_s = work.made_bytes / work.samples, work.cpu_s / work.samples
    receive_s = moved * RECEIVE_S
    # Of this process, what goes away: making samples where it does that itself, else the hand-over from its workers.
    goes = made_s if work.inline or work.here else work.client_cpu_s / meter.samples
    own_cpu_s = max(0.0, meter.step_cpu_s / meter.step_samples - goes)
    cores = cores or _native.feed.allowed_cpu()
    each_per_s = cores / (made_s + moved * SEND_S)
    rates = _Rates(each_per_s, cores, _loop_s(meter), own_cpu_s + receive_s, receive_s, moved, None, made_s, spare)
    if work.inline or (own_cpu_s + made_s) / _native.feed.allowed_cpu() < NEARLY * max(rates.loop_s, work.busy_s / work.samples / work.hands):
        return rates
    return replace(rates, loop=f"{rates.loop} (slowed here by making samples)")  # the cores bind


def _fed(meter, work: Work, cores: float | None, spare: float | None) -> _Rates:
    workers = sum(one["workers"] for one in work.feed.sizing)
    supply = max((one["supply_per_s"] for one in work.feed.sizing), default=0.0)
    if workers == 0 or supply <= 0:
        raise RuntimeError("the feed group's dispatcher has not told yet what its workers can make: it takes some seconds of samples")
    if cores is not None:
        raise ValueError("cores= is for a loader without a feed group; here helpers are like those that there are")
    came = max(1, meter.samples - work.feed.spare.samples)  # what spare cores made did not
    moved = work.feed.bytes_received / came
    starved = work.feed.starved_s
    link = work.feed.bytes_received / starved if starved > LINK_MATTERS * meter.step_s else None
    here_cpu_s, receive_s = meter.step_cpu_s / meter.step_samples, work.client_cpu_s / meter.samples
    ours = work.feed.spare
    make_s = ours.cpu_s / ours.samples if ours.samples else 0.0  # none took part: none is counted on
    return _Rates(supply / workers, None, _loop_s(meter), here_cpu_s, receive_s, moved, link, make_s, spare)


def _loop_s(meter) -> float:
    """The training loop's own time."""
    return (meter.step_s - meter.wait_s) / meter.step_samples
