# SPDX-License-Identifier: Apache-2.0
"""Trains a small network to tell photographs apart, behind augmentation that is heavier than the network.

    python examples/photos/train.py --data DIR              # anywhere
    stoker run examples/photos/train.py --group train=1xml.p3.2xlarge --input photos=DIR
    stoker run examples/photos/train.py --group train=1xml.p3.2xlarge --group data=1xml.c5.9xlarge:feed --input photos=DIR

The file is the same in all three: with a feed group, `stoker.DataLoader` has the pictures prepared there.
DIR holds one folder per class; examples/photos/make_photos.py makes one.
"""
import argparse
import math
import os
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

import stoker

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def gaussian_blur(image, sigma, kernel_size=11):
    """Blurs [3, H, W] with a Gaussian, one axis after the other."""
    x = torch.arange(kernel_size) - kernel_size // 2
    kernel = torch.exp(-(x**2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).repeat(3, 1)
    half = kernel_size // 2
    image = F.pad(image[None], (half, half, half, half), mode="reflect")
    image = F.conv2d(image, kernel.view(3, 1, 1, kernel_size), groups=3)
    return F.conv2d(image, kernel.view(3, 1, kernel_size, 1), groups=3)[0]


class Photos(Dataset):
    """Pictures of a folder of classes, augmented anew each time."""

    def __init__(self, root, size=192, blurs=12):
        self.size, self.blurs = size, blurs
        self.classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
        self.items = [
            (os.path.join(root, name, file), label)
            for label, name in enumerate(self.classes)
            for file in sorted(os.listdir(os.path.join(root, name)))
        ]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, label = self.items[index]
        image = np.array(Image.open(path).convert("RGB"))
        image = torch.from_numpy(image).permute(2, 0, 1).float() / 255
        return self.augment(image), label

    def augment(self, image):
        height, width = image.shape[1:]
        side = int(min(height, width) * random.uniform(0.6, 1.0))
        top, left = random.randint(0, height - side), random.randint(0, width - side)
        image = image[:, top : top + side, left : left + side]
        image = F.interpolate(image[None], size=(self.size, self.size), mode="bilinear", antialias=True)[0]
        if random.random() < 0.5:
            image = image.flip(2)
        image = image * random.uniform(0.8, 1.2)  # brightness
        grey = image.mean(0, keepdim=True)
        image = grey + (image - grey) * random.uniform(0.7, 1.3)  # saturation
        for _ in range(self.blurs):
            image = gaussian_blur(image, random.uniform(0.1, 0.8))
        image = image + 0.02 * torch.randn_like(image)
        return (image.clamp(0, 1) - MEAN) / STD


def network(classes):
    def block(inputs, outputs, stride):
        return [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *block(3, 16, 2),
        *block(16, 32, 2),
        *block(32, 64, 2),
        *block(64, 64, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_PHOTOS", "build/photos"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--blurs", type=int, default=12)
    parser.add_argument("--limit", type=int, default=0, help="stop an epoch after so many steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    photos = Photos(args.data, blurs=args.blurs)
    loader = stoker.DataLoader(
        photos,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        drop_last=True,
        persistent_workers=args.workers > 0,
    )
    model = network(len(photos.classes))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    print(f"{len(photos)} pictures, {len(photos.classes)} classes, {len(loader)} steps an epoch", flush=True)

    losses, start = [], time.monotonic()
    for epoch in range(args.epochs):
        for step, (images, labels) in enumerate(loader):
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(losses) % 10 == 0:
                recent = sum(losses[-10:]) / 10
                print(f"epoch {epoch + 1} step {len(losses)}: loss {recent:.4f}", flush=True)
            if args.limit and step + 1 == args.limit:
                break

    seconds = time.monotonic() - start
    if "SM_MODEL_DIR" in os.environ:
        torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
    tenth = max(1, len(losses) // 6)
    mean = lambda values: sum(values) / len(values)
    print(
        f"done: {len(losses)} steps, {len(losses) * args.batch_size} pictures in {seconds:.1f} s, "
        f"loss {mean(losses[:tenth]):.4f} at first (chance {math.log(len(photos.classes)):.4f}), "
        f"{mean(losses[-tenth:]):.4f} at last",
        flush=True,
    )


if __name__ == "__main__":
    main()
