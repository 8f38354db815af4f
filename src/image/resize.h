// SPDX-License-Identifier: Apache-2.0
// Antialiased resize and mirrors, bit-equal to Pillow's (and so to torchvision's for PIL
// pictures). Pure functions on views; the caller owns the memory.
#pragma once

#include "base/result.h"
#include "image/axis.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

// Both passes round to bytes, so their order shows in the result. Pillow up to 12 goes horizontally first
// always; 13 goes vertically first where the height shrinks much more than the width.
enum class PassOrder { kPillow12, kPillow13 };
PassOrder pass_order_of(int pillow_major);

// True if a resize from `from` to `to` makes the vertical pass first.
bool vertical_first(PassOrder order, Size from, Size to);

// Resizes all of `in` to all of `out`, which must not overlap. To resize a part, give in.crop(box), as
// torchvision does.
// Fails only for want of memory.
Status resize(const ImageView& in, const MutableImageView& out, PassOrder order, Workspace& workspace,
              const Resampling& how = {});

// Mirrors left and right. `out` may be `in`.
void flip(const ImageView& in, const MutableImageView& out);

// torchvision's arithmetic. The shorter side becomes `shorter`; the longer is cut to a whole number. With a
// `longest` > 0 the longer side is at most that, and where `shorter` is 0 exactly that.
Size resized_size(Size from, int shorter, int longest = 0);
// Where CenterCrop(to) takes its pixels; may lie outside of a smaller picture, see crop().
Box center_crop_box(Size from, Size to);

}  // namespace stoker::image
