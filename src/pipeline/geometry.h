// SPDX-License-Identifier: Apache-2.0
// Random parameters and sizes of geometric ops, by torchvision's rules. Pure; the same on every machine.
#pragma once

#include "base/random.h"
#include "image/view.h"
#include "pipeline/plan.h"

namespace stoker::pipeline {

// RandomResizedCrop.make_params with our draws (docs/formats/plan.md says which).
image::Box random_resized_crop_box(const RandomResizedCrop& op, image::Size picture, SampleRandom draws);
bool flips(const HorizontalFlip& op, SampleRandom draws);

// What a Resize makes of a picture. kData (too_large) where the long side would pass a million pixels.
Result<image::Size> resized(const Resize& op, image::Size picture);

// The size that an op leaves.
Result<image::Size> size_after(const Op& op, image::Size picture);

// log and exp of a fixed order of double operations: within 1e-14 relative, and equal everywhere, where
// libm's choice of instructions may differ in the last bit.
double fixed_log(double x);  // x > 0, normal
double fixed_exp(double x);  // |x| < 700

}  // namespace stoker::pipeline
