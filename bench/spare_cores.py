# SPDX-License-Identifier: Apache-2.0
"""What do the trainer's spare cores add to one small helper?

Pictures of shared/bench (decode, RandomResizedCrop, flip) in batches of 16 from one worker under a CPU quota of 0.15 cores (period 20 ms),
to a loop in a group of its own of 0.6 cores: `stoker/wait` without work, `stoker/train` with 10 ms of CPU and 60 ms of an emulated accelerator a
step, each with spare cores (2) and without (1). Wall time an image. Needs root and control groups (version 1).
"""
import os
import subprocess
import sys
import time
from pathlib import Path

import feed_group
import measure
import quotas

NEEDS = []
NEEDS_PICTURES = True
UNIT, SCALE, BY = "ms/image", 1e3, "wall_s_per_item"
HELPER, TRAINER, BATCH = 0.15, 0.6, 16
WITHOUT, WITH = 1, 2
STEPS = {"wait": (0.0, 0.0), "train": (0.01, 0.06)}  # s: CPU, accelerator


def contestants(run):
    return feed_group.contestants_under_quotas(run, "spare_cores.py", STEPS, (WITHOUT, WITH))


def verdict(best):
    for what in STEPS:
        without, with_ = best.get((f"stoker/{what}", WITHOUT)), best.get((f"stoker/{what}", WITH))
        if without and with_:
            steps = [row.wall_s_per_item * BATCH * 1e3 for row in (without, with_)]
            yield f"{what}: a step takes {steps[0]:.0f} ms without spare cores, {steps[1]:.0f} ms with ({steps[0] / steps[1]:.2f}x); {with_.note}"


def train(args):
    """In the trainer's control group."""
    cpu_s, sleep_s = STEPS[args.what]
    loader = feed_group.pictures(args.data, BATCH).numpy(workers=1)
    iterator = iter(loader)
    begun = time.perf_counter()

    def step():
        next(iterator)
        end = time.thread_time() + cpu_s
        while time.thread_time() < end:
            pass
        time.sleep(sleep_s)
        return BATCH

    while time.perf_counter() - begun < max(args.warmup, 8):  # what was made ahead is used up, and the share has settled
        step()
    result = measure.windows(args, step)
    spare = loader.stats().feed.spare
    result["note"] = f"{spare.samples} of {loader.stats().samples} images by spare cores ({spare.state})"
    loader.close()
    measure.emit(result)


def main():
    args = measure.parse(what="wait", part="")
    if args.part == "train":
        return train(args)
    os.environ.pop("STOKER_TELEMETRY_DIR", None)
    group = feed_group.FeedGroup()
    try:
        group.add_worker(HELPER)
        os.environ["STOKER_SPARE_CORES"] = "auto" if args.workers == WITH else "0"
        folder = group.quotas.make(TRAINER)
        command = [sys.executable, Path(__file__), *sys.argv[1:], "--part", "train"]
        subprocess.run(quotas.within(folder, command), check=True)
    finally:
        group.close()


if __name__ == "__main__":
    main()
