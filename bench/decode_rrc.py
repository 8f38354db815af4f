# SPDX-License-Identifier: Apache-2.0
"""What does one training picture cost: JPEG to RandomResizedCrop(224), flip, normalized float32, in batches of 64?

Ours is `stoker.DataLoader` over an ImageFolder with torchvision's transforms, as a user writes it: reading, hashing and
handing over included. Of the peers only torch's loader with Pillow makes the same pixels. Run as a program it measures
ours once: this is what the contestant `stoker/exact` runs. `+index`, `+cache`: with a picture cache of points in scans or of coefficients, after an epoch that
fills it; the cache is made anew each time.
"""
import os
import tempfile

import harness
import measure

NEEDS = ["util", "torch", "tf", "dali", "ffcv"]
NEEDS_PICTURES = True
UNIT, SCALE = "ms/image", 1e3

PEERS = [  # environment, script, variant, also with malloc tuned
    ("torch", "torch_pil.py", "pil", True),
    ("torch", "torch_pil.py", "tensor", False),
    ("torch", "torch_pil.py", "decode_jpeg", True),
    ("torch", "torch_cv2.py", "linear", False),
    ("tf", "tfdata.py", "antialias", True),
    ("tf", "tfdata.py", "noantialias", True),
    ("dali", "dali_cpu.py", "random_crop_decode", True),
    ("ffcv", "ffcv_beton.py", "jpg", False),
]

CACHES = {"index": "index", "cache": "coefficients"}  # name of the contestant, kind
WANTED = {"stoker/exact": 2.5, "stoker/exact+index": 3.2, "stoker/exact+cache": 5.5}  # times the best of any


def contestants(run):
    listed = []
    for workers in (1, 2):
        listed.append(harness.ours(run, "stoker/exact", "decode_rrc.py", workers))
        for name, kind in CACHES.items():
            listed.append(harness.ours(run, f"stoker/exact+{name}", "decode_rrc.py", workers, "--cache", kind))
        for venv, script, variant, tuned in PEERS:
            listed.append(harness.peer(run, venv, script, workers, variant, harness.per_image))
            if tuned and workers == 1:
                listed.append(harness.peer(run, venv, script, workers, variant, harness.per_image, tuned=True))
    return listed


def verdict(best):
    for workers, name in [(workers, name) for workers in (1, 2) for name in WANTED]:
        ours = best.get((name, workers))
        others = [row for (who, n), row in best.items() if n == workers and not who.startswith("stoker/")]
        if not ours or not others:
            continue
        same = [row for row in others if row.who.startswith("torch_dataloader_torchvision/pil")]
        first = min(others, key=lambda row: row.cpu_s_per_item)
        if same:
            pil = min(row.cpu_s_per_item for row in same)
            wanted = " (wanted: 4.3x)" if name == "stoker/exact" else ""
            yield f"{name}, {workers} worker(s): {pil / ours.cpu_s_per_item:.2f}x torch with Pillow, the same pixels{wanted}"
        ratio = first.cpu_s_per_item / ours.cpu_s_per_item
        yield f"{name}, {workers} worker(s): {ratio:.2f}x the best of any, {first.who} (wanted: {WANTED[name]}x)"


def main():
    args = measure.parse(batch=64, cache="")
    import torch
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    import stoker

    transform = v2.Compose([
        v2.RandomResizedCrop(224, antialias=True),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])
    dataset = ImageFolder(os.path.join(args.data, "train"), transform=transform)
    folder = tempfile.TemporaryDirectory(dir=os.path.dirname(args.data))
    kept = {"picture_cache": args.cache, "cache_dir": folder.name} if args.cache else {}
    loader = stoker.DataLoader(
        dataset, batch_size=args.batch, shuffle=True, num_workers=args.workers, drop_last=True, persistent_workers=True, **kept
    )
    for _ in range(2 if args.cache else 0):  # drop_last leaves a few out of the first
        for _ in loader:
            pass

    batches, last = measure.forever(loader), None

    def step():
        nonlocal last
        last, labels = next(batches)
        return len(labels)

    result = measure.windows(args, step)
    note = f"batch mean {float(last.mean()):.3f} std {float(last.std()):.3f}, first batch {result['first_item_s']:.2f} s"
    if args.cache:
        note += "; " + next(step.why for step in loader.explain().steps if step.what == "picture cache")
    measure.emit({**result, "note": note})


if __name__ == "__main__":
    main()
