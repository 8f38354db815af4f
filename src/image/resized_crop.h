// SPDX-License-Identifier: Apache-2.0
// The training path in one pass: decode only the region, resize each row as it comes, mirror, convert, and
// write into the caller's row. Equal, bit for bit, to decode_rgb, crop, resize, crop, flip and to_float_chw
// one after the other.
#pragma once

#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "image/normalize.h"
#include "image/resize.h"
#include "image/stored_picture.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

struct ResizedCrop {
  Box crop;   // of the stored picture; must lie inside
  Size size;  // the crop is resized to this
  std::optional<Box>
      window;         // of the resized picture, inside it: only this part is written. Without: all of it
  bool flip = false;  // mirrors what is written
  bool upside_down = false;  // its rows from the last to the first
  PassOrder order = PassOrder::kPillow13;
  Resampling how;

  Box written() const { return window ? *window : Box{0, 0, size.width, size.height}; }
};

// Where the result goes: written().width x written().height pixels without gaps. The caller owns it.
struct HwcBytes {
  uint8_t* data;
  ptrdiff_t stride = 0;  // bytes from row to row if there are gaps
};
// With one channel only the first is written: the picture is gray.
struct ChwBytes {
  uint8_t* data;
  int channels = 3;
};
struct ChwFloats {
  float* data;
  const NormalizeTable* table;
  int channels = 3;
};
using PixelOutput = std::variant<HwcBytes, ChwBytes, ChwFloats>;

// Errors as in decode.h; Code::kInvalid without a fault if a box does not fit. On an error the output is
// undefined.
Status decode_resized_crop(const StoredPicture& picture, const ResizedCrop& params, const PixelOutput& output,
                           Workspace& workspace);

// The same from a decoded picture.
Status resized_crop(const ImageView& in, const ResizedCrop& params, const PixelOutput& output,
                    Workspace& workspace);

}  // namespace stoker::image
