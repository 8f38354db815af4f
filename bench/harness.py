# SPDX-License-Identifier: Apache-2.0
"""Runs contestants in turns, writes what they measured as JSON lines, prints a table of ratios.

A *question* is a module with `NEEDS` (peers' environments), `contestants(run)` and `verdict(best)`. A *contestant* is a
command that prints one JSON line: ours as bench/measure.py prints it, a peer's as its script prints it. Every line of
build/bench/QUESTION.jsonl is one contestant's measurement in one round; ratios are of minima over the rounds, since CPU
time per item only grows with what else the machine does.
"""
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("STOKER_SHARED", ROOT.parent / "shared"))
PEERS = SHARED / "bench" / "peers"
HOME = ROOT / "build" / "peers"
DATA = ROOT / "build" / "bench" / "data"
PYTHON = ROOT / ".venv" / "bin" / "python"
# glibc maps every block over 32 MiB anew unless told not to; a batch of 64 float pictures is larger.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"}


@dataclass
class Row:
    question: str
    who: str
    workers: int
    version: str
    items: float
    cpu_s_per_item: float | None
    wall_s_per_item: float
    rss_mb: float | None
    note: str


@dataclass
class Contestant:
    """`read` turns the JSON that the command printed into Row's fields."""

    who: str
    workers: int
    command: list
    read: callable
    environment: dict = dataclasses.field(default_factory=dict)
    missing: str = ""


@dataclass
class Run:
    """How long and how often; what a question needs to build its commands."""

    question: str
    rounds: int = 3
    seconds: float = 2.0
    windows: int = 3
    warmup: float = 2.0
    limit_s: float = 240.0
    only: str = ""

    def timing(self):
        return ["--seconds", str(self.seconds), "--windows", str(self.windows), "--warmup", str(self.warmup)]


def version_of_ours():
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    first = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("version"))
    return f"{first.split(chr(34))[1]}+{git.stdout.strip() or 'unknown'}"


def ours(run, who, script, workers, *more, environment=None):
    command = [str(PYTHON), str(ROOT / "bench" / script), "--data", str(DATA), "--workers", str(workers), *run.timing(), *more]
    version = version_of_ours()
    missing = "" if PYTHON.exists() else "./.venv: make setup"
    return Contestant(who, workers, command, lambda d: {"version": version, **d}, dict(environment or {}), missing)


def peer(run, venv, script, workers, variant, read, *more, tuned=False):
    """A peer's script in the peer's environment. `read` as in Contestant; `who` comes from what the script prints."""
    python = HOME / "venv" / venv / "bin" / "python"
    command = [str(python), str(PEERS / script), "--data", str(DATA), "--workers", str(workers), "--variant", variant]
    command += [*run.timing(), "--json", *more]
    missing = "" if ready(venv) else f"environment {venv}"
    who = f"{script.removesuffix('.py')}/{variant}" + ("+malloc" if tuned else "")
    return Contestant(who, workers, command, read, dict(MALLOC) if tuned else {}, missing)


def per_image(d):
    """What the peers' image scripts print, as Row's fields."""
    versions = " ".join(f"{k} {v}" for k, v in d.get("versions", {}).items() if v)
    return {
        "who": f"{d['peer']}/{d['variant']}",
        "version": versions,
        "items": d["items"],
        "cpu_s_per_item": d["cpu_ms_per_image_min"] / 1e3,
        "wall_s_per_item": 1 / d["images_per_s_max"],
        "rss_mb": d["rss_mb"],
        "note": f"batch mean {d.get('batch_mean')} std {d.get('batch_std')}",
    }


def per_gigabyte(d):
    versions = " ".join(f"{k} {v}" for k, v in d.get("versions", {}).items() if v)
    return {
        "who": f"{d['peer']}/{d['variant']}",
        "version": versions,
        "items": round(d["gb_per_s_median"] * d["windows"] * d["window_s"], 3),  # the script does not print them
        "cpu_s_per_item": d["cpu_s_per_gb_min"],
        "wall_s_per_item": 1 / d["gb_per_s_max"],
        "rss_mb": d["rss_mb"],
    }


def measure(run, contestant, round_number):
    """One measurement, or a string that says why there is none."""
    if contestant.missing:
        return contestant.missing
    load = os.getloadavg()[0]
    try:
        done = subprocess.run(
            contestant.command, env={**os.environ, **contestant.environment}, cwd=ROOT, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=run.limit_s,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {run.limit_s:.0f} s"
    except OSError as error:
        return str(error)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return f"exit {done.returncode}: " + " / ".join((done.stderr or done.stdout).strip().splitlines()[-2:])[-200:]
    fields = contestant.read(json.loads(lines[-1]))
    note = f"round {round_number} of {run.rounds}, {run.windows} windows of {run.seconds:g} s, load {load:.1f}"
    fields["note"] = "; ".join(filter(None, [str(fields.get("note", "")), note]))
    names = {field.name for field in dataclasses.fields(Row)}
    row = {"question": run.question, "who": contestant.who, "workers": contestant.workers, "rss_mb": None}
    return Row(**{**row, **{k: v for k, v in fields.items() if k in names}})


def take_turns(run, contestants):
    """All rounds. Returns ({(who, workers): [rows]}, {(who, workers): why})."""
    out = ROOT / "build" / "bench" / f"{run.question}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    rows, missing = {}, {}
    for number in range(1, run.rounds + 1):
        for contestant in contestants:
            key = (contestant.who, contestant.workers)
            if key in missing:
                continue
            start = time.monotonic()
            row = measure(run, contestant, number)
            took = time.monotonic() - start
            if isinstance(row, str):
                missing[key] = row
                print(f"  {contestant.who} ({contestant.workers}): missing: {row}", flush=True)
                continue
            rows.setdefault((row.who, row.workers), []).append(row)
            with open(out, "a") as file:
                file.write(json.dumps(dataclasses.asdict(row)) + "\n")
            cpu = "-" if row.cpu_s_per_item is None else f"{row.cpu_s_per_item * 1e3:.3f} ms CPU"
            print(f"  round {number}: {row.who} ({row.workers}): {cpu} an item, {took:.0f} s", flush=True)
    return rows, missing


def minima(rows):
    """{(who, workers): Row with the smallest CPU and the smallest wall time of its rounds}."""
    best = {}
    for key, taken in rows.items():
        cpu = [row.cpu_s_per_item for row in taken if row.cpu_s_per_item is not None]
        best[key] = dataclasses.replace(
            taken[-1],
            cpu_s_per_item=min(cpu) if cpu else None,
            wall_s_per_item=min(row.wall_s_per_item for row in taken),
            rss_mb=max((row.rss_mb for row in taken if row.rss_mb is not None), default=None),
        )
    return best


def print_table(best, missing, scale, unit, by="cpu_s_per_item"):
    """`scale` and `unit` say how seconds an item are printed; the ratio is to stoker/exact with as many workers."""
    print(f"\n{'who':52} {'workers':>7} {'CPU ' + unit:>12} {'wall ' + unit:>12} {'RSS MB':>7} {'of ours':>8}")
    order = lambda row: (row.workers, getattr(row, by) or 0)
    for row in sorted(best.values(), key=order):
        base = best.get(("stoker/exact", row.workers))
        mine, theirs = (getattr(base, by) if base else None), getattr(row, by)
        ratio = f"{theirs / mine:.2f}x" if mine and theirs else "-"
        cpu = "-" if row.cpu_s_per_item is None else f"{row.cpu_s_per_item * scale:.3f}"
        rss = "-" if row.rss_mb is None else f"{row.rss_mb:.0f}"
        print(f"{row.who:52} {row.workers:>7} {cpu:>12} {row.wall_s_per_item * scale:>12.3f} {rss:>7} {ratio:>8}")
    for (who, workers), why in missing.items():
        print(f"{who:52} {workers:>7} missing: {why}")


def ready(venv):
    return (HOME / "venv" / venv / ".ready").exists()


PACKAGES = {"ffcv": ["libopencv-dev", "libturbojpeg0-dev", "pkg-config"]}  # what an environment is built with


def install(*packages):
    """Packages of the distribution, where they may be installed."""
    if os.getuid() != 0 or not shutil.which("apt-get"):
        return print(f"bench: missing, and not installed without root: {' '.join(packages)}")
    print(f"bench: installing {' '.join(packages)} …", flush=True)
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq", "install", "-y", "--no-install-recommends", *packages]
    done = subprocess.run(
        command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        print("bench: could not: " + done.stderr.strip()[-200:])


def set_up_peers(venvs):
    """Makes the environments that are not there. A failure is not fatal: that peer is printed as missing."""
    script = PEERS / "run.sh"
    for venv in venvs:
        if ready(venv):
            continue
        if not script.exists():
            print(f"bench: no peers' scripts in {PEERS} (STOKER_SHARED names their parent): {venv} is missing")
            continue
        if venv in PACKAGES:
            install(*PACKAGES[venv])
        print(f"bench: making the environment of {venv} under build/peers …", flush=True)
        done = subprocess.run(
            ["bash", str(script), "setup", venv], env={**os.environ, "HOME_DIR": str(HOME)}, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        if done.returncode == 0 and "SETUP FAILED" not in done.stdout:
            (HOME / "venv" / venv / ".ready").touch()
        else:
            print("bench: could not: " + " / ".join(done.stdout.strip().splitlines()[-2:])[-300:])


def make_pictures():
    """The photographs that all image questions read, made once into build/bench/data."""
    if (DATA / "MANIFEST.json").exists():
        return
    maker = SHARED / "bench" / "make_images.py"
    set_up_peers(["util"])
    if not maker.exists() or not ready("util"):
        sys.exit(f"bench: the pictures are made by {maker} with the environment `util`, and one of them is missing")
    print("bench: making the pictures …", flush=True)
    python = HOME / "venv" / "util" / "bin" / "python"
    subprocess.run([str(python), str(maker), str(DATA), "--cache", str(DATA.parent / "packages")], check=True)
