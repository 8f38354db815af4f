# SPDX-License-Identifier: Apache-2.0
"""What the benches of a feed group read. By itself, since a job takes it along."""
import os

import stoker


def pictures(data, batch: int):
    """The pictures of shared/bench, decoded, cropped and flipped, over and over."""
    pipe = stoker.data.image_folder(os.path.join(data, "train")).repeat(1000).shuffle(seed=0).decode().random_resized_crop(224)
    return pipe.horizontal_flip().batch(batch)

