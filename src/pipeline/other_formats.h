// SPDX-License-Identifier: Apache-2.0
// The seam to a decoder of formats that the image room does not read (docs/decisions/other-formats.md).
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "image/decode.h"
#include "image/view.h"

namespace stoker::pipeline {

inline constexpr int64_t kMostOtherPixels = image::kMaxPixels;  // as of those that we read

struct OtherPicture {
  image::ImageView pixels;  // in the caller's buffer
  bool gray16_clipped = false;
  int64_t cpu_ns = 0;  // what it took elsewhere
};

// Shared: any thread.
class OtherFormats {
 public:
  virtual ~OtherFormats() = default;
  // `refused` is what image::read_header() said of these bytes, and what comes back, with the reason, if this
  // decoder does not know them either. Errors of kData or kUnsupported carry a fault and are of the picture;
  // kUnavailable: the decoder cannot be had here.
  virtual Result<OtherPicture> decode(ByteView file, const Error& refused, image::Gray16 gray16,
                                      std::vector<uint8_t>& pixels) const = 0;
};

// Whether another decoder may know what the image room refused with this.
inline bool may_be_other_format(const Error& refused) {
  return refused.fault && (refused.fault->kind == "unsupported" || refused.fault->kind == "not_image");
}

}  // namespace stoker::pipeline
