# SPDX-License-Identifier: Apache-2.0
"""What does it cost a training loop that a feed worker dies, and how soon does a new one help?

Pictures of shared/bench in batches of 16 from two workers over loopback; the loop itself does nothing. `stoker/kill`: the longest
gap between two batches within 3 s of a SIGKILL, of a stream that goes on whole (its note has the median gap before).
`stoker/join`: from the start of a new worker's process to the moment it has made samples for the loop. `stoker/grow`: the same in a job whose
group of 1..2 instances (0.4 cores each) grows, from the decision: the instance, its worker, and the plan are in it. `stoker/drain`: from
SIGTERM to the end of a worker that has work. `stoker/close`: closing the loader. Wall time, each the best and the worst of 5.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import feed_group
import feed_pictures
import harness
import measure

NEEDS = []
NEEDS_PICTURES = True
UNIT, SCALE, BY = "ms", 1e3, "wall_s_per_item"
WANTED = {"join": 1.0, "grow": 1.0, "drain": 1.0, "close": 1.0}
TRIALS = 5


def contestants(run):
    return [harness.ours(run, f"stoker/{what}", "recovery.py", 1, "--what", what) for what in ("kill", *WANTED)]


def verdict(best):
    for what, limit in WANTED.items():
        row = best.get((f"stoker/{what}", 1))
        if row:
            yield f"{what}: {row.wall_s_per_item * 1e3:.0f} ms (wanted: under {limit:.0f} s); {row.note.split(';')[0]}"
    row = best.get(("stoker/kill", 1))
    if row:
        yield f"a killed worker: a gap of {row.wall_s_per_item * 1e3:.0f} ms and no batch; {row.note.split(';')[0]}"


class Stream:
    """Batches as they come, and the gaps between them."""

    def __init__(self, group, data):
        self.group = group
        self.loader = feed_pictures.pictures(data, 16).numpy(workers=1)
        self.iterator = iter(self.loader)
        self.gaps = []
        next(self.iterator)
        self.last = time.perf_counter()

    def take(self, seconds=0.0, until=None):
        """Reads for so long, or until until() is true; what is ahead already is read as well."""
        end = time.perf_counter() + (seconds or 30.0)
        while time.perf_counter() < end and not (until and until()):
            next(self.iterator)
            now = time.perf_counter()
            self.gaps.append(now - self.last)
            self.last = now

    def made_by(self) -> dict:
        return {one.name: one.samples for one in self.loader.stats().feed.workers}


GROWING = """
import time
import feed_pictures

loader = feed_pictures.pictures("/opt/ml/input/data/pictures", 16).numpy(workers=1)
for _ in loader:
    if sum(one.samples > 0 for one in loader.stats().feed.workers) == 2:
        break
print("HELPED %.6f" % time.time())
"""


def grown(data):
    """(seconds from the server's decision to the second worker's first samples, "")"""
    program = str(harness.ROOT / ".venv" / "bin" / "stoker")
    home = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    environment = {**os.environ, "STOKER_HOME": str(home / "home")}
    environment.pop("XDG_RUNTIME_DIR", None)
    (home / "code").mkdir()
    (home / "code" / "train.py").write_text(GROWING)
    shutil.copy(feed_pictures.__file__, home / "code")
    one = "cpus=1,memory=1"
    command = [program, "run", home / "code" / "train.py", "--name", "grow", "--cpu-scale", "0.4", "--input", f"pictures={data}"]
    command += ["--group", f"train=1x{one}", "--group", f"data=1..2x{one}:feed"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        if "HELPED" not in done.stdout:
            sys.exit(f"the group did not grow: {(done.stderr or done.stdout)[-400:]}")
        record = json.loads((home / "home" / "jobs" / "grow" / "record.json").read_text())
        return float(done.stdout.split("HELPED")[1].split()[0]) - record["state"]["resizes"][0]["at_ms"] / 1e3, ""
    finally:
        subprocess.run([program, "server", "--stop", "--force"], env=environment, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


def trial(what, data):
    """(seconds, what to note)"""
    if what == "grow":
        return grown(data)
    group = feed_group.FeedGroup()
    try:
        workers = [group.add_worker() for _ in range(2)]
        stream = Stream(group, data)
        stream.take(1.5)
        if what == "kill":
            usual = sorted(stream.gaps)[len(stream.gaps) // 2]
            stream.gaps.clear()
            workers[0].kill()
            stream.take(3)
            return max(stream.gaps), f"median gap before {usual * 1e3:.1f} ms"
        if what == "join":
            known = set(stream.made_by())
            started = time.perf_counter()
            group.add_worker()
            stream.take(until=lambda: any(rows for name, rows in stream.made_by().items() if name not in known))
            return time.perf_counter() - started, ""
        if what == "drain":
            started = time.perf_counter()
            workers[0].terminate()
            stream.take(until=lambda: workers[0].poll() is not None)
            return time.perf_counter() - started, ""
        started = time.perf_counter()
        stream.loader.close()
        return time.perf_counter() - started, ""
    finally:
        if "stream" in locals():
            stream.loader.close()
        group.close()


def main():
    args = measure.parse(what="kill")
    os.environ.pop("STOKER_TELEMETRY_DIR", None)
    cpu = measure.cpu_seconds()
    results = [trial(args.what, args.data) for _ in range(TRIALS)]
    seconds, note = min(results)
    worst = max(taken for taken, _ in results)
    measure.emit({
        "items": TRIALS, "cpu_s_per_item": (measure.cpu_seconds() - cpu) / TRIALS, "wall_s_per_item": seconds,
        "rss_mb": measure.rss_mb(), "note": ", ".join(filter(None, [f"worst of {TRIALS} {worst * 1e3:.0f} ms", note])),
    })


if __name__ == "__main__":
    main()
