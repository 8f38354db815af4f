# SPDX-License-Identifier: Apache-2.0
"""How does the rate grow with helpers, and when does an accelerator stop waiting?

Pictures of shared/bench (decode, RandomResizedCrop, flip) in batches of 16 from 1, 2 and 4 workers, each under a CPU quota of
0.15 cores (period 20 ms), to a loop without work: `stoker/helpers N`, wall time an image, beside 1/N of what one needs. `stoker/step N`: the
same before an emulated accelerator whose step takes as long as 2.5 such helpers need for a batch: its note has the share of the time
that the loop waits, which should go to zero as soon as the sum of CPUs allows. Needs root and control groups (version 1).
"""
import os
import time

import feed_group
import feed_pictures
import measure

NEEDS = []
NEEDS_PICTURES = True
UNIT, SCALE, BY = "ms/image", 1e3, "wall_s_per_item"
HELPERS, CORES, BATCH, ENOUGH = (1, 2, 4), 0.15, 16, 2.5


def contestants(run):
    return feed_group.contestants_under_quotas(run, "feed_scaling.py", ("helpers", "step"), HELPERS)


def verdict(best):
    alone = best.get(("stoker/helpers", 1))
    for helpers in HELPERS[1:]:
        row = best.get(("stoker/helpers", helpers))
        if alone and row:
            share = alone.wall_s_per_item / row.wall_s_per_item / helpers
            yield f"{helpers} helpers: {share:.2f} of linear (wanted: 0.95)"
    for helpers in HELPERS:
        row = best.get(("stoker/step", helpers))
        if row:
            yield f"a step that {ENOUGH} helpers feed, {helpers} helper(s): {row.note.split(';')[0]}"


def rate(loader, seconds: float, warmup: float, step_s: float = 0.0):
    """(images a second, share of the time that was waited)"""
    iterator = iter(loader)
    next(iterator)
    start = time.perf_counter()
    while time.perf_counter() - start < warmup:
        next(iterator)
        time.sleep(step_s)
    images, waited, start = 0, 0.0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        asked = time.perf_counter()
        next(iterator)
        got = time.perf_counter()
        waited += got - asked
        images += BATCH
        time.sleep(step_s)
    return images / (time.perf_counter() - start), waited / (time.perf_counter() - start)


def main():
    args = measure.parse(what="helpers")
    os.environ.pop("STOKER_TELEMETRY_DIR", None)
    group = feed_group.FeedGroup()
    try:
        first = group.add_worker(CORES)
        pipe = feed_pictures.pictures(args.data, BATCH)
        step_s, cpu = 0.0, measure.cpu_seconds()
        if args.what == "step":
            loader = pipe.numpy(workers=1)
            step_s = BATCH / (ENOUGH * rate(loader, args.seconds * args.windows, args.warmup)[0])
            loader.close()
        for _ in range(args.workers - 1):
            group.add_worker(CORES)
        loader = pipe.numpy(workers=1)
        # What was made ahead while the loop began must be used up before.
        warmup = args.warmup + 80 * step_s
        per_s, waited = rate(loader, args.seconds * args.windows, warmup, step_s)
        loader.close()
        assert first.poll() is None
    finally:
        group.close()
    note = f"waits {waited:.0%} of its time" + (f", step {step_s * 1e3:.0f} ms" if step_s else "")
    items = int(per_s * args.seconds * args.windows)
    measure.emit({
        "items": items, "cpu_s_per_item": (measure.cpu_seconds() - cpu) / items, "wall_s_per_item": 1 / per_s,
        "rss_mb": measure.rss_mb(), "note": note,
    })


if __name__ == "__main__":
    main()
