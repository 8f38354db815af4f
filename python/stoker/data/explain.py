# SPDX-License-Identifier: Apache-2.0
"""What explain() answers: a value that prints as text."""

from dataclasses import asdict, dataclass, field


def counted(count, noun: str, form: str = "") -> str:
    """"1 core", "2 cores", the number in that form."""
    told = format(count, form)
    return f"{told} {noun}" if told.strip() == "1" else f"{told} {noun}s"


def megabytes(per_s: float) -> str:
    """"2.5 MB/s", "1500 MB/s"."""
    return f"{per_s / 1e6:{'.0f' if per_s >= 1e8 else '.3g'}} MB/s"


@dataclass
class Explanation:
    native: bool
    reason: str  # why not native; "" where it is
    steps: list = field(default_factory=list)  # lowering.Step
    reference: dict = field(default_factory=dict)  # library -> version whose pixels are meant
    runs: str = ""
    stats: object = None  # LoaderStats of what has run so far
    plan: dict = field(default_factory=dict)
    forecasts: list = field(default_factory=list)  # of Forecast: with feed helpers

    def to_dict(self) -> dict:
        return {
            "native": self.native,
            "reason": self.reason,
            "steps": [vars(step) for step in self.steps],
            "reference": self.reference,
            "runs": self.runs,
            "stats": self.stats.to_dict() if self.stats is not None else {},
            "plan": self.plan,
            "forecasts": [asdict(one) for one in self.forecasts],
        }

    def __str__(self) -> str:
        kind = "native plan" if self.native else "Python plan"
        lines = [f"{kind}, {self.runs}" if self.runs else kind]
        if self.reason:
            lines.append(f"  because {self.reason}")
        for step in self.steps:
            lines.append(f"  {'native' if step.native else 'Python':7}{step.what}" + (f": {step.why}" if step.why else ""))
        if self.reference:
            names = ", ".join(f"{name} {version}" for name, version in self.reference.items())
            lines.append(f"  reference: {names}")
        if self.stats is not None and self.stats.samples:
            lines.append(str(self.stats))
        if self.forecasts:
            cores = self.forecasts[0].cores
            lines.append("  with feed helpers" + (f" of {counted(cores, 'core', '.3g')}:" if cores else " like those that there are:"))
            lines += [str(one) for one in self.forecasts]
        return "\n".join(lines)

    __repr__ = __str__
