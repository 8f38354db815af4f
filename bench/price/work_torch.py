# SPDX-License-Identifier: Apache-2.0
"""A kind's work as a user of PyTorch writes it: a Dataset with torchvision's transforms. For ours, torch, Ray and gRPC."""
import kinds
import numpy
import torch
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LENGTH = 1 << 22  # longer than any run


class Dilate(torch.nn.Module):
    def forward(self, image):
        return torch.nn.functional.max_pool2d(image.float(), 3, stride=1, padding=1).to(image.dtype)


def transforms(kind: kinds.Kind, dilate=True):
    steps = [Dilate()] if kind.dilate and dilate else []
    steps += [v2.GaussianBlur(11, (0.1, 2.0)) for _ in range(kind.blurs)]
    steps += [v2.RandomHorizontalFlip()] if kind.flip else []
    return v2.Compose([*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


class Pictures(torch.utils.data.Dataset):
    def __init__(self, kind: kinds.Kind):
        self.images, self.labels = kinds.pictures(kind)
        self.images = numpy.ascontiguousarray(self.images.transpose(0, 3, 1, 2))
        self.transform = transforms(kind)

    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        at = index % len(self.images)
        return self.transform(torch.from_numpy(self.images[at])), int(self.labels[at])


def ms_per_picture(kind: kinds.Kind, seconds: float = 1.0) -> float:
    """CPU time of one thread, the least of five tries."""
    import time

    torch.set_num_threads(1)
    data, costs = Pictures(kind), []
    for _ in range(5):
        count, start = 0, time.thread_time()
        while time.thread_time() - start < seconds / 5:
            data[count]
            count += 1
        costs.append((time.thread_time() - start) / count)
    return 1e3 * min(costs)
