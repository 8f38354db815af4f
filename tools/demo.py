#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make demo: one training script on a machine alone, then with a helper beside it, compared.

Trains examples/photos on an emulated p3.2xlarge, asks `stoker advise` what would help, runs the same script with an
emulated c5.9xlarge that prepares the pictures, and prints `stoker compare`. Both machines get the same share of this
one's cores per vCPU. Writes build/demo.json and build/demo.svg. The server is the demo's own, in build/demo.
"""
import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import demo_picture

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "demo"
LOCK = ROOT / "build" / ".demo.lock"
PHOTOS = ROOT / "build" / "photos"
STOKER = ROOT / ".venv" / "bin" / "stoker"
TRAIN, DATA = "ml.p3.2xlarge", "ml.c5.9xlarge"
VCPUS = 8 + 36
SCALE = 0.04  # 1.76 cores for 44 vCPUs
ENVIRONMENT = {**os.environ, "STOKER_HOME": str(HOME)}
DONE = re.compile(r"done: (\d+) steps, (\d+) pictures in ([0-9.]+) s, loss ([0-9.]+) at first.*?, ([0-9.]+) at last")


def fail(text):
    sys.exit(f"demo: {text}")


def say(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def check_machine(scale):
    cores = len(os.sched_getaffinity(0))
    needed = VCPUS * scale
    if needed > cores:
        fits = int(cores * 0.9 / VCPUS * 1000) / 1000
        fail(
            f"{VCPUS} vCPUs at {scale} cores each are {needed:.2f} cores, and this machine has {cores}: "
            f"DEMO_ARGS='--cpu-scale {fits}' make demo"
        )


def lock(path):
    """The lock of this checkout's home and server; it ends with whoever holds it."""
    path.parent.mkdir(exist_ok=True)
    file = open(path, "w")  # closed at once in what we start: Python's descriptors are not inherited
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail(f"another `make demo` of this checkout is running (it holds {os.path.relpath(path, ROOT)}); wait until it has ended")
    return file


def stoker(*arguments, check=True):
    done = subprocess.run([STOKER, *arguments], env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True)
    if check and done.returncode != 0:
        fail(f"stoker {' '.join(arguments)}: exit {done.returncode}\n{done.stderr or done.stdout}")
    return done.stdout


def run_job(name, groups, scale, epochs):
    """Runs the example as a job and shows its log. Returns what the script said at its end."""
    command = ["run", "examples/photos/train.py", "--name", name, "--cpu-scale", str(scale), "--fewer-gpus"]
    for group in groups:
        command += ["--group", group]
    command += ["--input", f"photos={PHOTOS}", "--", "--epochs", str(epochs)]
    print("$ stoker " + " ".join(command).replace(str(ROOT) + "/", ""), flush=True)
    child = subprocess.Popen([STOKER, *command], env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    end = None
    for line in child.stdout:
        print("  " + line.rstrip(), flush=True)
        end = DONE.search(line) or end
    if child.wait() != 0:
        fail(f"job {name} ended with exit {child.returncode}; its folder is {HOME / 'jobs' / name}")
    if not end:
        fail(f"job {name} did not say how it ended")
    return {"steps": int(end[1]), "images": int(end[2]), "first_loss": float(end[4]), "loss": float(end[5])}


def loader_telemetry(name):
    """What the job's loader wrote last: samples, digest, whether each came once."""
    last = [file.read_text().splitlines()[-1] for file in (HOME / "jobs" / name / "telemetry").glob("*/loader-*.jsonl")]
    if len(last) != 1:
        fail(f"job {name} left {len(last)} loader telemetry files where one was expected")
    return json.loads(last[0])


def predicted_step_ms(advice):
    for candidate in advice["candidates"]:
        if (candidate["kind"], candidate["instance_type"], candidate["count"]) == ("helpers", DATA, 1):
            return candidate["step_ms"]
    fail(f"`stoker advise` does not name one {DATA} as a helper: {advice['summary']}")


def summary(alone, fed, advice, said, telemetry):
    """The keys of build/demo.json; a dot is part of a key."""
    return {
        "alone.step_ms": alone["step_ms"],
        "fed.step_ms": fed["step_ms"],
        "alone.cost_per_100_steps": alone["cost_per_100_steps"],
        "fed.cost_per_100_steps": fed["cost_per_100_steps"],
        "speedup": fed["speedup"],
        "price_performance": fed["price_performance"],
        "bound": fed["bound_ms"],
        "share_of_bound": fed["share_of_bound"],
        "bound_covers": fed["bound_covers"],
        "predicted": predicted_step_ms(advice),
        "delivered_once": bool(telemetry["delivered_once"]) and telemetry["samples"] == said["images"],
        "digest": telemetry["digest"],
        "images": said["images"],
        "loss": said["loss"],
        "first_loss": said["first_loss"],
        "accelerator": fed["accelerator"],
        "cpu_scale": fed["cpu_scale"],
        "alone.wait_share": alone["wait_share"],
        "fed.wait_share": fed["wait_share"],
    }


def report(result, same_digest):
    off = abs(result["predicted"] - result["fed.step_ms"]) / result["fed.step_ms"]
    once = "yes" if result["delivered_once"] else "NO"
    also = "; alone: the same" if same_digest else ""
    print(f"predicted step with the helper: {result['predicted']:.0f} ms, measured {result['fed.step_ms']:.0f} ms ({off:.0%} off)")
    print(
        f"speed-up {result['speedup']:.2f}x, price-performance {result['price_performance']:.0%}, "
        f"{result['share_of_bound']:.0%} of the bound ({result['bound']:.0f} ms: {result['bound_covers']})"
    )
    print(f"samples delivered once: {once} (digest {result['digest']}{also})")
    print(f"accelerator: {result['accelerator']}")
    print(f"loss {result['first_loss']:.3f} -> {result['loss']:.3f} over {result['images']} pictures")


def afterwards(home, keep):
    """Where the demo's jobs are, and how one's own script becomes a job."""
    at = os.path.relpath(home, ROOT)
    lines = [
        "the demo's jobs are in a home of their own; to look at them:",
        f"$ export STOKER_HOME=$PWD/{at}",
        "$ .venv/bin/stoker ps --all; .venv/bin/stoker compare alone fed; .venv/bin/stoker logs fed",
        "your own script, with a helper where its data binds (docs/guide/jobs.md):",
        "$ unset STOKER_HOME",
        "$ .venv/bin/stoker run train.py --group train=1xhere",
        "$ .venv/bin/stoker advise last",
    ]
    if keep:
        lines.insert(3, "$ .venv/bin/stoker server --stop   # its server still runs")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu-scale", type=float, default=SCALE, help="cores per vCPU, for both machines")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="leave the server running")
    args = parser.parse_args(sys.argv[1:] + os.environ.get("DEMO_ARGS", "").split())
    start = time.monotonic()
    check_machine(args.cpu_scale)
    held = lock(LOCK)  # noqa: F841: until the end
    print(f"$ export STOKER_HOME=$PWD/{os.path.relpath(HOME, ROOT)}   # the demo's own server and jobs", flush=True)
    if HOME.exists():
        stoker("server", "--stop", "--force", check=False)
        shutil.rmtree(HOME)

    say("photographs")
    subprocess.run([sys.executable, ROOT / "examples" / "photos" / "make_photos.py", PHOTOS], check=True)
    try:
        say(f"alone: {TRAIN}, 8 vCPUs")
        alone_said = run_job("alone", [f"train=1x{TRAIN}"], args.cpu_scale, args.epochs)

        say("what would help?")
        print("$ stoker advise alone", flush=True)
        print(stoker("advise", "alone"), end="")
        advice = json.loads(stoker("advise", "alone", "--json"))
        print(f"taken here, as in the published comparison: 1 {DATA}, predicted {predicted_step_ms(advice):.0f} ms a step")

        say(f"with a helper: {DATA}, 36 vCPUs")
        said = run_job("fed", [f"train=1x{TRAIN}", f"data=1x{DATA}:feed"], args.cpu_scale, args.epochs)

        say("compared")
        print("$ stoker compare alone fed", flush=True)
        print(stoker("compare", "alone", "fed"), end="")
        alone, fed = json.loads(stoker("compare", "alone", "fed", "--json"))["jobs"]
    finally:
        if not args.keep:
            stoker("server", "--stop", "--force", check=False)

    telemetry = loader_telemetry("fed")
    result = summary(alone, fed, advice, said, telemetry)
    result["seconds"] = round(time.monotonic() - start, 1)
    print()
    report(result, loader_telemetry("alone")["digest"] == telemetry["digest"])
    if alone_said["images"] != said["images"]:
        fail(f"the runs trained on {alone_said['images']} and {said['images']} pictures")
    (ROOT / "build" / "demo.json").write_text(json.dumps(result, indent=1) + "\n")
    (ROOT / "build" / "demo.svg").write_text(demo_picture.draw(result))
    print(f"build/demo.json and build/demo.svg written; {result['seconds']:.0f} s in all")
    say("afterwards")
    print(afterwards(HOME, args.keep))
    return 0 if result["delivered_once"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
