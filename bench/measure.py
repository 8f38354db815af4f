# SPDX-License-Identifier: Apache-2.0
"""How ours is measured: as the peers' scripts measure themselves.

CPU is user + system time of this process and all its descendants, read from /proc, so that it holds on a busy machine;
what ended children used is in their parents' counts. A script here prints one JSON line that `harness.py` reads.
"""
import argparse
import json
import os
import time

TICK = os.sysconf("SC_CLK_TCK")


def parse(**extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="length of a window")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--warmup", type=float, default=2)
    for name, value in extra.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    return parser.parse_args()


def _stat(pid):
    """(parent, ticks used by it and its ended children) of a process, or None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), sum(map(int, fields[11:15]))


def process_tree():
    """{pid: ticks} of this process and its descendants."""
    stats = {int(name): _stat(name) for name in os.listdir("/proc") if name.isdigit()}
    tree, todo = {}, [os.getpid()]
    while todo:
        pid = todo.pop()
        if stats.get(pid):
            tree[pid] = stats[pid][1]
            todo += [child for child, stat in stats.items() if stat and stat[0] == pid]
    return tree


def cpu_seconds():
    return sum(process_tree().values()) / TICK


def rss_mb():
    """Resident memory of the tree; shared pages count once in each process."""
    total = 0
    for pid in process_tree():
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Rss:"))
        except OSError:
            pass
    return round(total / 1024)


def forever(loader):
    """The loader's batches, epoch after epoch."""
    while True:
        yield from loader


def windows(args, step):
    """Calls step(), which returns how many items it delivered, for a warm-up and then for args.windows windows."""
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    while time.perf_counter() - start < args.warmup:
        step()
    taken = []
    for _ in range(args.windows):
        items, cpu, start = 0, cpu_seconds(), time.perf_counter()
        while True:
            items += step()
            wall = time.perf_counter() - start
            if wall >= args.seconds:
                break
        taken.append((items, wall, cpu_seconds() - cpu))
    return {
        "items": sum(items for items, _, _ in taken),
        "cpu_s_per_item": min(cpu / items for items, _, cpu in taken),
        "wall_s_per_item": min(wall / items for items, wall, _ in taken),
        "first_item_s": first,
        "rss_mb": rss_mb(),
    }


def emit(result):
    print(json.dumps(result), flush=True)
