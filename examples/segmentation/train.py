# SPDX-License-Identifier: Apache-2.0
"""Trains a tiny network to tell discs and squares from noise, pixel by pixel: pictures with masks, transformed together.

    python examples/segmentation/train.py --data DIR     # makes the pictures there if they are not

The transforms are torchvision's v2; `stoker.DataLoader` makes pictures and masks without Python, which it prints first.
"""
import argparse
import os

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import nn
from torchvision import tv_tensors
from torchvision.transforms import v2

import stoker

CLASSES = ("ground", "disc", "square")
UNLABELLED = 255  # where there is no picture: rotation and padding fill the mask with it


def make_pictures(root, count, seed=0):
    """root/images/N.jpg and root/masks/N.png, a palette picture whose indices are the classes."""
    rng = np.random.default_rng(seed)
    for folder in ("images", "masks"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    for i in range(count):
        width, height = (int(x) for x in rng.integers(80, 120, 2))
        mask = Image.new("P", (width, height))
        mask.putpalette([0, 0, 0, 220, 60, 60, 60, 60, 220])
        draw = ImageDraw.Draw(mask)
        for shape, paint in ((1, draw.ellipse), (2, draw.rectangle)):
            radius = int(rng.integers(10, 22))
            x, y = int(rng.integers(radius, width - radius)), int(rng.integers(radius, height - radius))
            paint((x - radius, y - radius, x + radius, y + radius), fill=shape)
        colours = rng.integers(40, 216, (3, 3))
        pixels = colours[np.asarray(mask)] + rng.normal(0, 20, (height, width, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(os.path.join(root, "images", f"{i}.jpg"), quality=92)
        mask.save(os.path.join(root, "masks", f"{i}.png"))


def transforms(size):
    fill = {tv_tensors.Mask: UNLABELLED, "others": 0}
    return v2.Compose([
        v2.RandomRotation(15, fill=fill),
        v2.RandomResizedCrop(size, scale=(0.4, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(0.2, 0.2, 0.2),  # leaves masks alone
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.25] * 3),
    ])


def network():
    layers, channels = [], 3
    for width in (16, 32, 32):
        layers += [nn.Conv2d(channels, width, 5, padding=2), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.Conv2d(channels, len(CLASSES), 1))


def train(data, epochs, batch=16, size=64, workers=1):
    """Mean loss of each epoch."""
    torch.manual_seed(0)
    source = stoker.data.image_masks(os.path.join(data, "images"), os.path.join(data, "masks"), transform=transforms(size))
    loader = stoker.DataLoader(source, batch_size=batch, shuffle=True, num_workers=workers, drop_last=True)
    print(loader.explain(), flush=True)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for epoch in range(epochs):
        total = right = known = 0.0
        for images, masks in loader:
            found = model(images)
            loss = F.cross_entropy(found, masks.long(), ignore_index=UNLABELLED)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            right += (found.argmax(1) == masks).sum().item()
            known += (masks != UNLABELLED).sum().item()
        losses.append(total / len(loader))
        print(f"epoch {epoch}: loss {losses[-1]:.3f}, {right / known:.0%} of the pixels right", flush=True)
    loader.close()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="build/segmentation")
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    if not os.path.isdir(os.path.join(args.data, "masks")):
        make_pictures(args.data, args.pictures)
    train(args.data, args.epochs)


if __name__ == "__main__":
    main()
