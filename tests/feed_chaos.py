#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random schedules of faults against a feed group of real processes; whatever happens, the stream is the same.

    tests/feed_chaos.py [--schedules 100] [--first SEED] [--jobs 2]      exit status 1 if one failed
    tests/feed_chaos.py --first SEED --schedules 1 --verbose             one again, told step by step

A schedule is drawn from its seed alone: sources, ranks, workers, at which batch the ranks stop and go on as another number of
ranks, and what goes wrong at which batch. Each fault must be seen to have hit (`Fault.hit`), else the schedule is void; more than one void in 50 is a failure.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from PIL import Image  # now, since plans of Python code name the libraries that are loaded

sys.path.insert(0, str(Path(__file__).resolve().parent))
import stoker
from bad_wires import Wires
from program import address_of
from stoker.data.feed_engine import find_program
from waiting import wait_until

ITEMS = {"arrays": 3000, "pictures": 1600, "python": 1200}
BATCH = 8
LAST_FAULT = 0.4  # of the stream: behind it, what is left to ask for may be asked for already
KINDS = ["kill", "pause", "partition", "cut", "slow", "flip", "truncate", "duplicate", "dispatcher", "join", "leave"]
VOID = "did not hit"
FRAME_FAULTS = ("flip", "truncate", "duplicate")


@dataclass
class Fault:
    at: int  # before this batch
    kind: str
    draw: float  # [0, 1): which worker, which byte, how long
    victim: object = None  # the worker that it was done to
    over: float = 0.0  # when it ends
    hit: bool = False


@dataclass
class Schedule:
    seed: int
    source: str
    group: bool  # of workers over TCP, shared by all ranks; else each rank has its own children
    workers: int
    ranks: list  # (how many ranks, up to which batch)
    faults: list = field(default_factory=list)

    @staticmethod
    def drawn(seed: int) -> "Schedule":
        draw = random.Random(seed)
        source = draw.choices(["arrays", "pictures", "python"], [16, 3, 1])[0]
        batches = ITEMS[source] // BATCH
        ends = sorted(draw.sample(range(1, batches), draw.choice([0, 1, 1, 2]))) + [batches]
        group = draw.random() < 0.85
        workers, ranks = ([1, 2, 7], [1, 2, 3, 8]) if group else ([1, 2, 4], [1, 1, 2])
        schedule = Schedule(seed, source, group, draw.choice(workers), [(draw.choice(ranks), end) for end in ends])
        for _ in range(draw.randint(1, 5)):
            kind = draw.choice(KINDS if group else ["kill", "pause"])
            schedule.faults.append(Fault(draw.randrange(2, int(batches * LAST_FAULT)), kind, draw.random()))
        schedule.faults.sort(key=lambda fault: fault.at)
        return schedule

    def __str__(self):
        ranks = ", ".join(f"{ranks} rank(s) to batch {end}" for ranks, end in self.ranks)
        faults = ", ".join(f"{fault.kind} at {fault.at}" for fault in self.faults)
        return f"schedule {self.seed}: {self.source}, {self.workers} {'worker(s)' if self.group else 'child(ren) a rank'}; {ranks}; {faults}"


class Sources:
    """Data and the stream that must come, made once for all schedules of a process."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._expected = {}

    def pipe(self, kind: str):
        if kind == "arrays":
            path = self._folder / "rows.npy"
            if not path.exists():
                numpy.save(path, numpy.random.default_rng(0).integers(0, 256, (ITEMS[kind], 300), dtype=numpy.uint8))
            pipe = stoker.data.arrays(str(path)).shuffle(seed=3)
        elif kind == "pictures":
            if not (self._folder / "pictures").exists():
                draw_pictures(self._folder / "pictures")
            pipe = stoker.data.image_folder(self._folder / "pictures").repeat(ITEMS[kind] // 16).shuffle(seed=4)
            pipe = pipe.decode().random_resized_crop(12).horizontal_flip()
        else:
            pipe = stoker.data.range(ITEMS[kind]).shuffle(seed=5).map(noisy)
        return pipe.batch(BATCH)

    def expected(self, kind: str):
        """Batches as bytes, and the digest of the whole stream, made in this process."""
        if kind not in self._expected:
            os.environ["STOKER_AUDIT"] = "1"
            loader = self.pipe(kind).numpy(workers=0)
            batches = [joined([batch]) for batch in loader]
            self._expected[kind] = batches, int(loader.state_dict()["digest"], 16)
            del os.environ["STOKER_AUDIT"]
        return self._expected[kind]


def draw_pictures(folder: Path) -> None:
    draw = numpy.random.default_rng(1)
    for i in range(16):
        (folder / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        coarse = draw.integers(0, 255, (4, 5, 3), dtype=numpy.uint8)
        Image.fromarray(numpy.kron(coarse, numpy.ones((8, 8, 1), numpy.uint8))).save(folder / "ab"[i % 2] / f"{i}.jpg")


def noisy(i):
    return numpy.int64(i), numpy.float64(random.random())


def joined(parts) -> bytes:
    """A global batch, of the rows of its ranks, as a short digest."""
    leaves = [part if isinstance(part, (list, tuple)) else [part] for part in parts]
    told = hashlib.sha256()
    for columns in zip(*leaves, strict=True):
        told.update(numpy.concatenate(columns).tobytes())
    return told.digest()


class Worker:
    def __init__(self, group: "Group"):
        self.wire = group.wires.add()
        self.popen = group.start(
            "feed-worker", "--listen", "127.0.0.1:0", "--advertise", self.wire.address, "--dispatcher", group.dispatcher_address,
            "--threads", "1", "--python", sys.executable,
        )  # fmt: skip
        self.wire.target = group.listening(self.popen)
        self.leaving = False
        self.paused_until = 0.0

    def alive(self) -> bool:
        return self.popen.poll() is None and not self.leaving

    def well(self) -> bool:
        return self.alive() and time.monotonic() > self.paused_until and not self.wire.held and not self.wire.is_cut


class Group:
    """A feed group of this schedule's own, and what goes wrong in it."""

    def __init__(self, folder: Path, workers: int, tell):
        self.tell = tell
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text("0123456789abcdef\n")
        self.wires = Wires()
        self.log = (folder / "log").open("a")
        self.processes = []
        self.dispatcher_deaths = 0
        self.dispatcher_address = "127.0.0.1:0"
        self.dispatcher = self.start("feed-dispatcher", "--listen", self.dispatcher_address)
        self.dispatcher_address = self.listening(self.dispatcher)
        self.workers = [Worker(self) for _ in range(workers)]

    def start(self, part: str, *arguments):
        command = [find_program(), part, *arguments, "--token-file", str(self.token)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        started = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.processes.append(started)
        return started

    def listening(self, process) -> str:
        """The address that it says; its other lines go to the log."""
        address = address_of(process, self.log.write)
        threading.Thread(target=copy_lines, args=(process.stderr, self.log), daemon=True).start()
        return address

    def do(self, fault: Fault) -> None:
        needs_victim = fault.kind not in (*FRAME_FAULTS, "join", "dispatcher")
        victim = self.someone_well(fault.draw) if needs_victim else None
        seconds = 0.03 + 0.25 * (fault.draw * 977 % 1)
        self.tell(f"{fault.kind}{f' of {victim.wire.address}' if victim else ''}, {seconds:.2f} s")
        if fault.kind in FRAME_FAULTS:
            self.wires.frame_faults.append((fault.kind, fault.draw * 31 % 1))
        elif fault.kind == "join":
            self.workers.append(Worker(self))
            fault.victim = self.workers[-1]
            wait_until(lambda: fault.victim.wire.accepted > 0, lambda: "who joined is not heard of")
            return
        elif fault.kind == "dispatcher":
            self.dispatcher.kill()
            self.dispatcher.wait()
            self.dispatcher_deaths += 1
            self.wires.call(self.dispatcher_again, seconds)
        elif fault.kind == "pause":
            victim.popen.send_signal(signal.SIGSTOP)
            victim.paused_until = time.monotonic() + seconds
            self.wires.call(lambda: victim.popen.send_signal(signal.SIGCONT), seconds)
        elif fault.kind == "partition":
            victim.wire.hold(seconds)
        elif fault.kind == "cut":
            victim.wire.cut(seconds)
        elif fault.kind == "slow":
            victim.wire.slow(seconds, 20_000)
        else:
            victim.leaving = True
            victim.popen.send_signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)
            if fault.kind == "kill":
                victim.popen.wait()
        fault.victim, fault.over = victim, time.monotonic() + seconds
        if not any(worker.alive() for worker in self.workers):
            self.workers.append(Worker(self))

    def someone_well(self, draw: float) -> Worker:
        """A worker that has connections; it may have to recover first from what was done to it before."""
        def well() -> list:
            return [worker for worker in self.workers if worker.well() and worker.wire.pairs]

        found = wait_until(well, lambda: "no worker recovers")
        return found[int(draw * len(found))]

    def dispatcher_again(self) -> None:
        self.dispatcher = self.start("feed-dispatcher", "--listen", self.dispatcher_address)

    def has_hit(self, fault: Fault) -> bool:
        """Whether it did something: to a frame, to bytes on a wire, to a connection, or to a process that had connections."""
        victim = fault.victim
        if fault.kind in FRAME_FAULTS:
            return fault.kind in self.wires.done
        if fault.kind == "dispatcher":
            return self.dispatcher_deaths > 0
        if fault.kind == "join":
            return victim.wire.accepted > 0
        if fault.kind in ("partition", "slow"):
            return victim.wire.held_bytes > 0
        if fault.kind == "cut":
            return victim.wire.refused > 0
        return True  # a process with connections got its signal: someone_well()

    def end(self) -> None:
        self.wires.close()  # first: nothing is started again
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()
        for process in self.processes:
            process.stderr.close()
        self.log.close()


class Children:
    """The loaders' own workers in the place of a group."""

    def __init__(self, tell):
        self.tell = tell
        self.timers = []

    def do(self, fault: Fault) -> None:
        wait_until(self.found, lambda: "no child lives")
        children = self.found()
        fault.victim = children[int(fault.draw * len(children))]
        seconds = 0.03 + 0.25 * (fault.draw * 977 % 1)
        self.tell(f"{fault.kind} of child {fault.victim}, {seconds:.2f} s")
        os.kill(fault.victim, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
        if fault.kind == "pause":
            self.timers.append(threading.Timer(seconds, self.go_on, [fault.victim]))
            self.timers[-1].start()

    def go_on(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def found(self) -> list:
        pids = []
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError):
                pids += [int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()]
        return sorted(pid for pid in pids if is_worker(pid))

    def has_hit(self, fault: Fault) -> bool:
        return fault.victim is not None

    def end(self) -> None:
        for timer in self.timers:
            timer.join()


def is_worker(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return (b"feed-worker" in command or b"stoker.data.worker" in command) and "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def copy_lines(stream, log) -> None:
    with contextlib.suppress(ValueError, OSError):  # both are closed when the group ends
        for line in stream:
            log.write(line)


def run(schedule: Schedule, sources: Sources, folder: Path, verbose: bool = False) -> list:
    """Raises AssertionError when the stream is another; returns its faults, each with `hit`."""
    began = time.monotonic()

    def tell(text: str) -> None:
        if verbose:
            print(f"  {time.monotonic() - began:.3f} s, batch {at}: {text}", flush=True)

    at, state, digest = 0, {}, 0
    expected, expected_digest = sources.expected(schedule.source)
    waiting, done = deque(schedule.faults), []
    if schedule.group:
        group = Group(folder, schedule.workers, tell)
        os.environ["STOKER_FEED"], os.environ["STOKER_FEED_TOKEN_FILE"] = group.dispatcher_address, str(group.token)
        os.environ["STOKER_SPARE_CORES"] = "1" if schedule.seed % 3 == 0 else "0"
    else:
        group = Children(tell)
    workers = 1 if schedule.group else schedule.workers
    try:
        for ranks, end in schedule.ranks:
            tell(f"{ranks} rank(s)")
            pipe = sources.pipe(schedule.source)
            loaders = [pipe.shard(rank, ranks).numpy(workers=workers) for rank in range(ranks)]
            for loader in loaders if state else []:
                loader.load_state_dict(state)
            iterators = [iter(loader) for loader in loaders]
            try:
                while at < end:
                    while waiting and waiting[0].at <= at:
                        done.append(waiting.popleft())
                        group.do(done[-1])
                    for fault in done:  # nothing may have passed just then
                        if fault.kind in ("partition", "slow") and fault.over < time.monotonic() and not group.has_hit(fault):
                            group.do(fault)
                    parts = [next(iterator) for iterator in iterators]
                    assert joined(parts) == expected[at], f"batch {at} is another"
                    at += 1
                states = [loader.state_dict() for loader in loaders]
                before = int(state.get("digest", "0"), 16)
                digest += sum(int(one["digest"], 16) - before for one in states)
                assert len({one["batch"] for one in states}) == 1, states
                state = json.loads(json.dumps(states[0]))
                if end == len(expected):
                    assert all(next(iterator, None) is None for iterator in iterators), "more samples than there are"
            finally:
                for loader in loaders:
                    loader.close()
        # Units of Python plans are whole batches of a rank, and so are the terms of their digest.
        if schedule.source != "python" or all(ranks == 1 for ranks, _ in schedule.ranks):
            assert digest % (1 << 128) == expected_digest, "the digest is another"
        for fault in schedule.faults:
            fault.hit = group.has_hit(fault)
    finally:
        for name in ("STOKER_FEED", "STOKER_FEED_TOKEN_FILE"):
            os.environ.pop(name, None)
        group.end()
    return schedule.faults


def run_seed(seed: int, folder: str, verbose: bool = False) -> tuple:
    """(seed, kinds that hit, "" or what failed)"""
    schedule = Schedule.drawn(seed)
    if verbose:
        print(schedule, flush=True)
    own = Path(tempfile.mkdtemp(dir=folder))
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("nothing comes any more")))
    signal.alarm(60)
    try:
        faults = run(schedule, sources_in(folder), own, verbose)
    except Exception as error:
        return seed, [], f"{schedule}\n  {type(error).__name__}: {error}\n" + tail(own / "log")
    finally:
        signal.alarm(0)
    missed = [f"{fault.kind} at {fault.at}" for fault in faults if not fault.hit]
    if missed:
        return seed, [], f"{schedule}\n  {VOID}: {', '.join(missed)}"
    return seed, [fault.kind for fault in faults], ""


def log_to(folder: str) -> None:
    """What our clients say of the faults is no news here."""
    os.dup2(os.open(f"{folder}/clients-{os.getpid()}.log", os.O_CREAT | os.O_WRONLY, 0o600), 2)


_sources = {}


def sources_in(folder: str) -> Sources:
    if folder not in _sources:
        own = Path(tempfile.mkdtemp(dir=folder))
        _sources[folder] = Sources(own)
    return _sources[folder]


def tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "".join(f"  log: {line}\n" for line in lines[-8:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--first", type=int, default=None, metavar="SEED", help="default: drawn")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    first = secrets.randbelow(10**9) if args.first is None else args.first
    print(f"feed_chaos: {args.schedules} schedules, seeds {first} to {first + args.schedules - 1}", flush=True)
    hits, failed, void, began = Counter(), 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-chaos-") as folder:
        if args.verbose:
            results = (run_seed(first + i, folder, True) for i in range(args.schedules))
        else:
            pool = concurrent.futures.ProcessPoolExecutor(args.jobs, initializer=log_to, initargs=[folder])
            results = pool.map(run_seed, range(first, first + args.schedules), [folder] * args.schedules)
        for seed, kinds, problem in results:
            hits.update(kinds)
            if VOID in problem:
                void += 1
            elif problem:
                failed += 1
                print(f"FAILED {problem}\n  again: tests/feed_chaos.py --first {seed} --schedules 1 --verbose", flush=True)
    seconds = time.monotonic() - began
    print(f"feed_chaos: {args.schedules - failed - void} equal, {failed} failed, {void} void, in {seconds:.0f} s; hits: {dict(sorted(hits.items()))}")
    return 1 if failed or void * 50 > args.schedules else 0


if __name__ == "__main__":
    sys.exit(main())
