# SPDX-License-Identifier: Apache-2.0
"""Detection: pictures with bounding boxes through torchvision's own v2 transforms, in Python workers, are torchvision's."""

import itertools
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
import numpy
from PIL import Image
from torchvision import datasets, tv_tensors
from torchvision.transforms import v2

import stoker
from stoker.data import seeding

COUNT = 9
FLOATS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
GEOMETRY = [
    v2.RandomPhotometricDistort(), v2.RandomZoomOut(fill={tv_tensors.Image: (123, 117, 104), "others": 0}, side_range=(1.0, 2.0)),
    v2.RandomCrop(40, pad_if_needed=True), v2.RandomHorizontalFlip(), v2.RandomResizedCrop((48, 56), scale=(0.3, 1.0)),
    v2.RandomRotation(10), v2.RandomAffine(5, (0.1, 0.1)), v2.RandomPerspective(),
]  # fmt: skip
TRANSFORMS = {
    "flip": v2.Compose([v2.Resize((60, 50)), v2.RandomHorizontalFlip(), *FLOATS]),
    "crops": v2.Compose([v2.RandomResizedCrop(48), v2.RandomCrop(40, padding=4), v2.ClampBoundingBoxes(), *FLOATS]),
    "ssd": v2.Compose([*GEOMETRY, v2.ClampBoundingBoxes(), v2.SanitizeBoundingBoxes(), *FLOATS]),
    "other format": v2.Compose([v2.RandomResizedCrop(48), v2.ConvertBoundingBoxFormat("CXCYWH"), v2.RandomVerticalFlip(), *FLOATS]),
}


def pixels(number: int) -> numpy.ndarray:
    draw = numpy.random.default_rng(number)
    return draw.integers(0, 256, (50 + 7 * number, 90 - 3 * number, 3), dtype=numpy.uint8)


def corners(number: int) -> list:
    """1 to 4 boxes."""
    draw = random.Random(number)
    height, width = pixels(number).shape[:2]
    boxes = []
    for _ in range(1 + number % 4):
        left, top = draw.randrange(1, width // 2), draw.randrange(1, height // 2)
        boxes.append([left, top, left + draw.randint(4, width // 2), top + draw.randint(4, height // 2)])
    return boxes


class Detection(torch.utils.data.Dataset):
    """Each picture through each of the transforms."""

    def __len__(self):
        return COUNT * len(TRANSFORMS)

    def __getitem__(self, item):
        number, transform = item % COUNT, list(TRANSFORMS.values())[item // COUNT]
        image = Image.fromarray(pixels(number))
        boxes = tv_tensors.BoundingBoxes(corners(number), format="XYXY", canvas_size=image.size[::-1], dtype=torch.float32)
        return transform(image, {"boxes": boxes, "labels": torch.arange(len(boxes)), "image_id": item})


def voc(root, transform):
    """torchvision's own data set, wrapped for v2."""
    folder = root / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    (folder / "ImageSets/Main/train.txt").write_text("\n".join(map(str, range(COUNT))))
    for number in range(COUNT):
        Image.fromarray(pixels(number)).save(folder / f"JPEGImages/{number}.jpg")
        boxes = "".join(
            f"<object><name>cat</name><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox></object>"
            for a, b, c, d in corners(number)
        )
        (folder / f"Annotations/{number}.xml").write_text(f"<annotation><filename>{number}.jpg</filename>{boxes}</annotation>")
    plain = datasets.VOCDetection(str(root), "2012", "train", transforms=transform)
    return datasets.wrap_dataset_for_transforms_v2(plain, target_keys=("boxes", "labels"))


def as_lists(samples):
    return [image for image, _ in samples], [target for _, target in samples]


def check_equal(ours, theirs):
    """Pictures, boxes and what is known of them."""
    assert torch.equal(ours[0], theirs[0])
    boxes, wanted = ours[1]["boxes"], theirs[1]["boxes"]
    assert type(boxes) is type(wanted) is tv_tensors.BoundingBoxes
    assert boxes.dtype == wanted.dtype and torch.equal(boxes.as_subclass(torch.Tensor), wanted.as_subclass(torch.Tensor))
    assert (boxes.format, boxes.canvas_size) == (wanted.format, wanted.canvas_size)
    assert torch.equal(ours[1]["labels"], theirs[1]["labels"])


def check_epochs(loader, dataset, count=2):
    """What torchvision makes of each item once its generators are seeded for the position; the items of all epochs."""
    items = []
    for images, targets in itertools.chain(*itertools.repeat(loader, count)):
        seed = loader.state_dict()["seed"]
        for sample in zip(images, targets, strict=True):
            item = int(sample[1]["image_id"])
            with seeding.kept_generators():
                seeding.seed_generators(seed, len(items))
                check_equal(sample, dataset[item])
            items.append(item)
    return items


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_boxes_are_torchvisions_for_the_same_draws(workers):
    dataset = Detection()
    loader = stoker.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers, collate_fn=as_lists)
    explained = loader.explain()
    assert not explained.native and "its samples are made by its own Python code" in explained.reason
    items = check_epochs(loader, dataset)
    loader.close()
    count = len(dataset)
    assert sorted(items[:count]) == sorted(items[count:]) == list(range(count)) != items[:count]


def test_torchvisions_own_detection_data_sets(tmp_path):
    dataset = voc(tmp_path, TRANSFORMS["ssd"])
    loader = stoker.DataLoader(dataset, batch_size=4, num_workers=1, collate_fn=as_lists)
    got = [sample for images, targets in loader for sample in zip(images, targets, strict=True)]
    seed = loader.state_dict()["seed"]
    loader.close()
    assert len(got) == COUNT
    for position, sample in enumerate(got):
        with seeding.kept_generators():
            seeding.seed_generators(seed, position)
            check_equal(sample, dataset[position])
    explained = stoker.DataLoader(dataset, batch_size=4, collate_fn=as_lists).explain()
    assert not explained.native and "its samples are made by its own Python code" in explained.reason
