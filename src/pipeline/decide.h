// SPDX-License-Identifier: Apache-2.0
// From ops to actions: draws the random numbers of one sample, by torchvision's distributions. Pure; the same
// on every machine.
#pragma once

#include "base/random.h"
#include "image/view.h"
#include "pipeline/actions.h"
#include "pipeline/ops.h"

namespace stoker::pipeline {

// Appends what `op` does to a picture of size `picture`, which becomes the size after it. Ops inside a
// container go on with its draws. Errors are of the sample: a picture that the op cannot take.
Status decide(const Op& op, SampleRandom& draws, image::Size& picture, Actions& out);

}  // namespace stoker::pipeline
