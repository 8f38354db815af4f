# SPDX-License-Identifier: Apache-2.0
"""What do ten GaussianBlur(11) of one 224 x 224 x 3 float picture cost, sigmas drawn anew for each?

Ours is `stoker.DataLoader` over an ImageFolder of JPEGs of that size with torchvision's transforms, as a user writes it:
reading, decoding, hashing and handing over in batches of 64 included. The peers blur a picture that they hold in memory,
and hand nothing over. The bound is the arithmetic of our two passes on rows in the first cache (bench/blur_bound.cc).
Floats of ours and of `v2_float` are equal to 1e-6 for each blur (docs/parity.md); cv2's are bytes. Run as a program it
measures ours once.
"""
import os
import tempfile

import harness
import measure

NEEDS = ["torch"]
NEEDS_PICTURES = False
UNIT, SCALE = "ms/image", 1e3
SIDE, BLURS, PICTURES = 224, 10, 64

PEERS = [  # variant, also with malloc tuned
    ("v2_float", True),
    ("v2_uint8", True),
    ("cv2_uint8", False),
]


def contestants(run):
    bound = harness.ROOT / "build" / "release" / "blur_bound"
    missing = "" if bound.exists() else "build/release/blur_bound"
    version = harness.version_of_ours()
    listed = [
        harness.ours(run, "stoker/exact", "blur10.py", 1),
        harness.Contestant("bound/rows_in_first_cache", 1, [str(bound), *run.timing()], lambda d: {"version": version, **d}, missing=missing),
    ]
    for variant, tuned in PEERS:
        listed.append(harness.peer(run, "torch", "seed_blur.py", 1, variant, harness.per_image))
        if tuned:
            listed.append(harness.peer(run, "torch", "seed_blur.py", 1, variant, harness.per_image, tuned=True))
    return listed


def verdict(best):
    ours = best.get(("stoker/exact", 1))
    if not ours:
        return
    for peer, wanted in (("v2_float", "25x the better of it and its +malloc"), ("cv2_uint8", "ahead")):
        rows = [row for (who, _), row in best.items() if who.startswith(f"seed_gaussian_blur10/{peer}")]
        if rows:
            first = min(rows, key=lambda row: row.cpu_s_per_item)
            yield f"{first.cpu_s_per_item / ours.cpu_s_per_item:.1f}x {first.who} (wanted: {wanted})"
    bound = best.get(("bound/rows_in_first_cache", 1))
    if bound:
        yield f"{bound.cpu_s_per_item / ours.cpu_s_per_item:.0%} of the bound, the arithmetic alone"


def make_pictures(folder):
    """Waves with some noise, as bytes of JPEG like those of a photograph."""
    import numpy
    from PIL import Image

    draw = numpy.random.default_rng(0)
    os.mkdir(os.path.join(folder, "x"))
    y, x = numpy.mgrid[0:SIDE, 0:SIDE] / 40.0
    for number in range(PICTURES):
        waves = [128 + 90 * numpy.sin(x * draw.uniform(0.2, 3) + y * draw.uniform(0.2, 3)) for _ in range(3)]
        pixels = numpy.stack(waves, -1) + draw.normal(0, 6, (SIDE, SIDE, 3))
        picture = Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))
        picture.save(os.path.join(folder, "x", f"{number}.jpg"), quality=90)


def main():
    args = measure.parse(batch=64)
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    import stoker

    blurs = [v2.GaussianBlur(11) for _ in range(BLURS)]
    transform = v2.Compose([v2.CenterCrop(SIDE), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), *blurs])
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(folder)
        loader = stoker.DataLoader(
            ImageFolder(folder, transform=transform), batch_size=args.batch, shuffle=True, num_workers=args.workers, persistent_workers=True
        )
        if not loader.explain().native:
            raise SystemExit(str(loader.explain()))

        batches, last = measure.forever(loader), None

        def step():
            nonlocal last
            last, labels = next(batches)
            return len(labels)

        result = measure.windows(args, step)
        loader.close()
    measure.emit({**result, "note": f"batch mean {float(last.mean()):.3f} std {float(last.std()):.3f}"})


if __name__ == "__main__":
    main()
