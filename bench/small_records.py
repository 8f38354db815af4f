# SPDX-License-Identifier: Apache-2.0
"""What does one picture of 32x32 cost: RandomCrop(32, padding=4), flip, normalized float32, shuffled, in batches of 256?

Ours is `stoker.DataLoader` over `stoker.data.arrays` with torchvision's transforms, as a user writes it: random numbers of
each record's own, hashing and handing over included. The bound converts each record from its random place to floats in a
batch and does nothing else. Run as a program it measures ours, or the bound (--bound 1).
"""
import harness
import measure

NEEDS = ["torch"]
NEEDS_PICTURES = False
UNIT, SCALE = "us/record", 1e6

PEERS = {"v2_tensor": 20, "numpy_batch": 5}  # and how much cheaper ours is wanted to be


def contestants(run):
    listed = [harness.ours(run, "bound/convert", "small_records.py", 0, "--bound", "1")]
    for workers in (0, 1, 2):
        listed.append(harness.ours(run, "stoker/exact", "small_records.py", workers))
        for variant in PEERS:
            listed.append(
                harness.peer(run, "torch", "cifar_aug.py", workers, variant, harness.per_image, "--batch", "256")
            )
    return listed


def verdict(best):
    bound = best.get(("bound/convert", 0))
    for workers in (0, 1, 2):
        ours = best.get(("stoker/exact", workers))
        for variant, wanted in PEERS.items():
            theirs = best.get((f"cifar_augment/{variant}", workers))
            if ours and theirs:
                ratio = theirs.cpu_s_per_item / ours.cpu_s_per_item
                yield f"{workers} worker(s): {ratio:.1f}x cifar_augment/{variant} (wanted: {wanted}x)"
        if ours and bound:
            yield f"{workers} worker(s): {bound.cpu_s_per_item / ours.cpu_s_per_item:.0%} of the bound's speed"


def main():
    args = measure.parse(batch=256, records=50000, bound=0, layout="hwc")
    import numpy

    shape = (32, 32, 3) if args.layout == "hwc" else (3, 32, 32)
    x = numpy.random.default_rng(0).integers(0, 256, (args.records, *shape), dtype=numpy.uint8)
    y = numpy.arange(args.records)
    result = measure.windows(args, conversions(args, x) if args.bound else batches(args, x, y))
    measure.emit({**result, "note": f"{args.records} records"})


def batches(args, x, y):
    import torch
    from torchvision.transforms import v2

    import stoker

    transform = v2.Compose([
        v2.RandomCrop(32, padding=4),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    ])
    loader = stoker.DataLoader(
        stoker.data.arrays(x, y, transform=transform), batch_size=args.batch, shuffle=True, num_workers=args.workers,
        drop_last=True, persistent_workers=args.workers > 0,
    )
    if not loader.explain().native:
        raise SystemExit(f"not native: {loader.explain()}")

    made = measure.forever(loader)

    def step():
        records, _ = next(made)
        return len(records)

    return step


def conversions(args, x):
    """Bytes to floats, a record at a time from its random place, into a batch that is used again."""
    import numpy

    order = numpy.random.default_rng(1).permutation(args.records)
    batches = order[: args.records // args.batch * args.batch].reshape(-1, args.batch)
    taken, out, at = numpy.empty((args.batch, *x.shape[1:]), numpy.uint8), numpy.empty((args.batch, *x.shape[1:]), "f4"), 0

    def step():
        nonlocal at
        numpy.take(x, batches[at % len(batches)], axis=0, out=taken, mode="clip")
        numpy.copyto(out, taken)
        at += 1
        return args.batch

    return step


if __name__ == "__main__":
    main()
