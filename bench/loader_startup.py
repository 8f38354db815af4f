# SPDX-License-Identifier: Apache-2.0
"""How soon does a loader over a folder of 1,000,000 pictures give its first batch, and what does it cost to stay?

The folder is real: 1000 classes of 1000 names each, hard links of a few pictures of 32 x 32, made once (and listed once:
the index is there when the clock starts). An item is one start, resume or close; wall time is the median of the repeats,
in a process that has imported torch and stoker. `first`: from stoker.data.image_folder(…) to the first batch.
`resume`: the same with a state of step 10^6 (of batch 64, so in epoch 64) loaded; close: of a loader with a batch out.
`epoch` and `bad` are no starts but memory: MB of the process tree after 1/10 of 10^6 samples and at their end, and over
10,000 damaged pictures in a row (on_error="skip").
"""
import os
import statistics
import sys
import tempfile
import time

import harness
import measure

NEEDS = []
NEEDS_PICTURES = False
UNIT, SCALE, BY = "ms", 1e3, "wall_s_per_item"

FOLDER = harness.DATA.parent / "million"
CLASSES = NAMES = 1000
STEP = 1_000_000


def contestants(run):
    listed = []
    for workers in (0, 1, 2):
        listed.append(harness.ours(run, "stoker/exact", "loader_startup.py", workers, "--what", "first"))
        for what in ("resume", "close"):
            listed.append(harness.ours(run, f"stoker/{what}", "loader_startup.py", workers, "--what", what))
    for what in ("epoch", "bad"):
        listed.append(harness.ours(run, f"stoker/memory_{what}", "loader_startup.py", 2, "--what", what))
    return listed


def verdict(best):
    for workers in (0, 1, 2):
        for who, text in (("exact", "first batch"), ("resume", "resumed at step 10^6"), ("close", "close")):
            row = best.get((f"stoker/{who}", workers))
            if row:
                yield f"{workers} worker(s): {text} {row.wall_s_per_item * 1e3:.0f} ms (wanted: under 1000)"
    for what in ("epoch", "bad"):
        row = best.get((f"stoker/memory_{what}", 2))
        if row:
            yield f"memory, {what}: {row.note.partition(';')[0]}"


def set_up():
    """A million names; hard links, since what counts is the listing and not the pictures."""
    if (FOLDER / "made").exists():
        return
    print("bench: making 1,000,000 names …", flush=True)
    import subprocess

    subprocess.run([str(harness.PYTHON), str(harness.ROOT / "bench" / "loader_startup.py"), "--what", "make"], check=True)


def make():
    import numpy
    from PIL import Image

    draws = numpy.random.default_rng(0)
    originals = FOLDER / "originals"
    originals.mkdir(parents=True, exist_ok=True)
    for i in range(64):
        coarse = Image.fromarray(draws.integers(0, 256, (8, 8, 3), dtype=numpy.uint8))
        coarse.resize((32, 32)).save(originals / f"{i}.jpg", quality=90)
    for c in range(CLASSES):
        folder = FOLDER / "train" / f"c{c:04}"
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(NAMES):
            target = folder / f"{i:04}.jpg"
            if not target.exists():
                os.link(originals / f"{(c * NAMES + i) % 64}.jpg", target)
    (FOLDER / "made").touch()


def loader_of(args, folder, **more):
    import torch
    from torchvision.transforms import v2

    import stoker

    transform = v2.Compose([
        v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.5,) * 3, (0.25,) * 3),
    ])  # fmt: skip
    arguments = {"batch_size": 64, "shuffle": True, "num_workers": args.workers, **more}
    generator = torch.Generator().manual_seed(0)
    return stoker.DataLoader(stoker.data.image_folder(folder, transform=transform), generator=generator, **arguments)


def state_at(args, step):
    """A state as it is after so many steps."""
    loader = loader_of(args, FOLDER / "train", num_workers=0)
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    per_epoch = len(loader)
    return {**state, "epoch": step // per_epoch, "batch": step % per_epoch}


def starts(args):
    loader = loader_of(args, FOLDER / "train")  # the index is made
    if not loader.explain().native:
        sys.exit(f"not native: {loader.explain()}")
    state = state_at(args, STEP) if args.what == "resume" else None
    taken, cpu = [], []
    for _ in range(args.repeats):
        before, start = measure.cpu_seconds(), time.perf_counter()
        loader = loader_of(args, FOLDER / "train")
        if state is not None:
            loader.load_state_dict(state)
        iterator = iter(loader)
        images, _ = next(iterator)
        first = time.perf_counter() - start
        if len(images) != 64:
            sys.exit("a short batch")
        start = time.perf_counter()
        loader.close()
        taken.append(time.perf_counter() - start if args.what == "close" else first)
        cpu.append(measure.cpu_seconds() - before)
    measure.emit({
        "items": len(taken), "cpu_s_per_item": min(cpu), "wall_s_per_item": statistics.median(taken),
        "rss_mb": measure.rss_mb(), "note": f"slowest {max(taken) * 1e3:.0f} ms",
    })


def epoch(args, folder, count, **more):
    """Memory early and late over so many samples."""
    loader = loader_of(args, folder, batch_size=500, **more)
    seen, early, started, before = 0, None, time.perf_counter(), measure.cpu_seconds()
    for batch in loader:
        seen += len(batch[0])
        if early is None and seen >= count / 10:
            early = measure.rss_mb()
        if seen >= count:
            late = measure.rss_mb()
    wall, cpu = time.perf_counter() - started, measure.cpu_seconds() - before
    stats = loader.stats()
    note = f"{early} MB after {count // 10} samples, {late} MB after {seen}, {stats.skipped} skipped"
    measure.emit({
        "items": seen, "cpu_s_per_item": cpu / seen, "wall_s_per_item": wall / seen, "rss_mb": late, "note": note
    })


def bad(args):
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        whole = (FOLDER / "originals" / "0.jpg").read_bytes()
        broken = os.path.join(folder, "broken")
        with open(broken, "wb") as file:
            file.write(whole[: len(whole) // 2])
        os.makedirs(os.path.join(folder, "train", "c"))
        for i in range(11_000):
            os.link(broken, os.path.join(folder, "train", "c", f"{i:05}.jpg"))
        epoch(args, os.path.join(folder, "train"), 11_000, on_error="skip", shuffle=False)


def main():
    args = measure.parse(what="first", repeats=5)
    if args.what == "make":
        make()
    elif args.what == "epoch":
        epoch(args, FOLDER / "train", CLASSES * NAMES)
    elif args.what == "bad":
        bad(args)
    else:
        starts(args)


if __name__ == "__main__":
    main()
