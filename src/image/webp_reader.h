// SPDX-License-Identifier: Apache-2.0
// libwebp behind Result: a WebP of any kind to 8-bit RGB; of an animation its first frame on a black canvas.
// Profiles, EXIF and alpha are dropped, though damage in the alpha plane is damage, as it is to Pillow. Pure.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "image/buffer.h"
#include "image/view.h"

namespace stoker::image {

// What has to be decoded so that `region` inside of it has the bits of the whole picture: chroma is smoothed
// across a pixel on each side, and libwebp begins at even ones.
Box webp_margins(const Box& region, Size picture);

// The part of the picture under `box`, as webp_margins() gives it, into `out` of its size. `picture` is what
// the header says. `scratch` holds pixels with alpha on their way.
Status read_webp(ByteView data, Size picture, const Box& box, const MutableImageView& out, Buffer& scratch);

}  // namespace stoker::image
