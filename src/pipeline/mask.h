// SPDX-License-Identifier: Apache-2.0
// The mask of a sample: class numbers that go through the geometry of its picture. Numbers are carried in the
// three bytes of pixels (image/decode.h), so that the same kernels move both; maps take the nearest pixel, as
// torchvision's do of a tv_tensors.Mask. Pure.
#pragma once

#include "pipeline/actions.h"
#include "pipeline/producer.h"
#include "pipeline/stage.h"

namespace stoker::pipeline {

// What is done to the picture and means anything to a mask: colours, blurs and erasing leave it alone.
Status apply_to_mask(const Actions& actions, Stage& stage);

// The numbers of such pixels as uint8 or int64, rows without a gap. kData for one that does not fit.
Status write_numbers(const image::ImageView& mask, DType dtype, uint8_t* out);

}  // namespace stoker::pipeline
