// SPDX-License-Identifier: Apache-2.0
// libpng behind Result: a PNG of any kind to 8-bit RGB rows. Ancillary chunks (text, profiles, transparency)
// are passed over unread. Pure.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "image/buffer.h"
#include "image/stored_picture.h"
#include "image/view.h"

namespace stoker::image {

struct PngResult {
  bool gray16_clipped = false;
};

// Decodes rows 0 … rows-1 into `out`, which has the picture's width and at least that many rows. `scratch`
// holds 16-bit gray on its way.
Result<PngResult> read_png(ByteView data, int rows, const MutableImageView& out, Gray16 gray16,
                           Buffer& scratch);

// The numbers of a palette or gray picture: each pixel's in its first two bytes, the low one first.
Status read_png_numbers(ByteView data, const MutableImageView& out, Buffer& scratch);

}  // namespace stoker::image
