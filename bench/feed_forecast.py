# SPDX-License-Identifier: Apache-2.0
"""How near is what explain(helpers=N) says, before there are helpers, to what they give?

A loader alone (one worker process of this machine's) is asked what helpers of 0.15 cores would give; then 1 and 2 such helpers (feed workers under a CPU quota,
period 20 ms) feed the same loop, which has no work of its own. `stoker/pictures N`: decode, crop and flip of shared/bench's pictures, native; `stoker/python N`: 3 ms
of Python's CPU a sample. Wall time a sample with N helpers; the note has the forecast of before, and that of the fed loader, beside the rate that was
measured. Needs root and control groups (version 1).
"""
import os
import time

import feed_group
import feed_pictures
import feed_scaling
import measure

NEEDS = []
NEEDS_PICTURES = True
UNIT, SCALE, BY = "ms/sample", 1e3, "wall_s_per_item"
HELPERS, CORES, BATCH = (1, 2), 0.15, feed_scaling.BATCH
ALONE_S = 4  # that the lone loader is measured for


class Spinning:
    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        end = time.thread_time() + 0.003
        while time.thread_time() < end:
            pass
        return index


def contestants(run):
    return feed_group.contestants_under_quotas(run, "feed_forecast.py", ("pictures", "python"), HELPERS)


def verdict(best):
    for (who, helpers), row in best.items():
        yield f"{who} {helpers}: {row.note.split(';')[0]} (wanted: within 15 %)"


def loader_of(args):
    import stoker

    if args.what == "pictures":
        return feed_pictures.pictures(args.data, BATCH).numpy(workers=1)
    return stoker.DataLoader(Spinning(), batch_size=BATCH, num_workers=1)


def main():
    args = measure.parse(what="pictures")
    os.environ.pop("STOKER_TELEMETRY_DIR", None)
    os.environ.pop("STOKER_FEED", None)
    loader = loader_of(args)
    feed_scaling.rate(loader, ALONE_S, args.warmup)
    (before,) = loader.explain(helpers=args.workers, cores=CORES).forecasts
    loader.close()
    group, cpu = feed_group.FeedGroup(), measure.cpu_seconds()
    try:
        for _ in range(args.workers):
            group.add_worker(CORES)
        loader = loader_of(args)
        per_s, _ = feed_scaling.rate(loader, args.seconds * args.windows, args.warmup)
        (fed,) = loader.explain(helpers=args.workers).forecasts
        items, cpu_s = int(per_s * args.seconds * args.windows), measure.cpu_seconds() - cpu
        loader.close()
    finally:
        group.close()
    note = f"alone it said {before.per_s:.1f}/s, {before.per_s / per_s - 1:+.0%}; fed {fed.per_s:.1f}/s, {fed.per_s / per_s - 1:+.0%}; measured {per_s:.1f}/s"
    measure.emit({
        "items": items, "cpu_s_per_item": cpu_s / items, "wall_s_per_item": 1 / per_s, "rss_mb": measure.rss_mb(), "note": note,
    })  # fmt: skip


if __name__ == "__main__":
    main()
