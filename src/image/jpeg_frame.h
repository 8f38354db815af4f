// SPDX-License-Identifier: Apache-2.0
// The headers of the JPEGs that we decode ourselves: baseline, 8 bits, YCbCr with chroma at full, half width
// or half size, one scan, no restarts. Strict where libjpeg is not: anything unusual is for libjpeg to judge.
// Pure.
#pragma once

#include <array>
#include <optional>

#include "base/bytes.h"
#include "image/view.h"

namespace stoker::image {

// Views into the file.
struct JpegComponent {
  const uint8_t* quant = nullptr;  // 64 steps in zigzag order
  ByteView dc;                     // Huffman tables as stored: 16 counts, then the symbols
  ByteView ac;
};

struct JpegFrame {
  Size size;
  int luma_h = 1;  // luma samples for one of chroma, across and down: 1x1, 2x1 or 2x2
  int luma_v = 1;
  std::array<JpegComponent, 3> components;
  size_t scan = 0;  // where the coded data begin

  int unit_width() const { return 8 * luma_h; }
  int unit_height() const { return 8 * luma_v; }
  int units_across() const { return (size.width + unit_width() - 1) / unit_width(); }
  int units_down() const { return (size.height + unit_height() - 1) / unit_height(); }
  int luma_blocks() const { return luma_h * luma_v; }  // in a unit; one of each chroma follows
};

// Nothing if the file is of any other kind, or wrong in any way.
std::optional<JpegFrame> read_jpeg_frame(ByteView data);

}  // namespace stoker::image
