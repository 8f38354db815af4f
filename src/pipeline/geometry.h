// SPDX-License-Identifier: Apache-2.0
// Random parameters and sizes of geometric ops, by torchvision's rules. Pure; the same on every machine.
#pragma once

#include "base/random.h"
#include "image/view.h"
#include "pipeline/ops.h"

namespace stoker::pipeline {

// RandomResizedCrop.make_params with our draws (docs/formats/plan.md says which).
image::Box random_resized_crop_box(const RandomResizedCrop& op, image::Size picture, SampleRandom& draws);
// RandomCrop's: of the picture with its padding, so it may lie outside. An error where the picture is too
// small.
Result<image::Box> random_crop_box(const RandomCrop& op, image::Size picture, SampleRandom& draws);
// RandomErasing.make_params; nothing where ten tries did not fit.
std::optional<image::Box> random_erasing_box(const RandomErasing& op, image::Size picture,
                                             SampleRandom& draws);

// What a Resize makes of a picture. kData (too_large) where the long side would pass a million pixels.
Result<image::Size> resized(const Resize& op, image::Size picture);

}  // namespace stoker::pipeline
