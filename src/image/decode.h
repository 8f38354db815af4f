// SPDX-License-Identifier: Apache-2.0
// Encoded pictures to RGB bytes, bit-equal to Pillow's Image.open(...).convert("RGB"): JPEG of every kind
// that Pillow reads (gray, YCbCr, RGB, CMYK, YCCK; baseline, progressive, arithmetic; the first picture of
// several), PNG and WebP (the first frame). Contents decide the format, EXIF rotation and colour profiles are
// not applied, alpha is dropped.
//
// Errors carry a DataFault of kind empty, not_image, unsupported, truncated, corrupt or too_large and, where
// it means something, the byte offset; the path is for the caller to fill in. A cut file is never padded.
// Pure but for the workspace, which one thread uses at a time.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "image/stored_picture.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

enum class Format { kJpeg, kPng, kWebp };

struct Header {
  Format format = Format::kJpeg;
  int width = 0;
  int height = 0;
  Size size() const { return {width, height}; }
};

// Twice Pillow's MAX_IMAGE_PIXELS, where Pillow refuses; checked on the header, before memory is taken.
inline constexpr int64_t kMaxPixels = 178'956'970;

// About a microsecond: reads no further than the size. What comes after it may still be damaged.
Result<Header> read_header(ByteView data);

Result<Header> header_of(const StoredPicture& picture);

// The whole picture, in the workspace or in the caller's memory of the picture's size.
Result<ImageView> decode_rgb(ByteView data, Workspace& workspace, Gray16 gray16 = Gray16::kClip);
Status decode_rgb_into(ByteView data, const MutableImageView& out, Workspace& workspace,
                       Gray16 gray16 = Gray16::kClip);

// The class numbers of a mask, those of numpy.asarray(Image.open(…)): palette indices, gray of 1, 8 or 16
// bits as it is, of 2 and 4 bits spread to 8. They stand in the pixels of `out`, which has the picture's
// size: the low byte, the high one, zero; so what moves whole pixels moves them. Only PNG has such pictures.
Status decode_numbers_into(ByteView data, const MutableImageView& out, Workspace& workspace);

// The part under `region`, equal to the same part of the whole picture; the rest is decoded only as far as
// that needs. A file that is cut anywhere is still an error; other damage outside the region may go unseen.
Result<ImageView> decode_region(ByteView data, const Box& region, Workspace& workspace,
                                Gray16 gray16 = Gray16::kClip);

}  // namespace stoker::image
