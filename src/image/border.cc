// SPDX-License-Identifier: Apache-2.0
#include "image/border.h"

#include <algorithm>
#include <cstring>

namespace stoker::image {
namespace {

int modulo(int at, int period) {
  int rest = at % period;
  return rest < 0 ? rest + period : rest;
}

void fill(uint8_t* to, int pixels, const std::array<uint8_t, 3>& colour) {
  for (int x = 0; x < pixels; ++x, to += 3) std::memcpy(to, colour.data(), 3);
}

}  // namespace

int border_index(Border::Kind kind, int at, int side) {
  if (at >= 0 && at < side) return at;
  switch (kind) {
    case Border::kConstant:
      return -1;
    case Border::kEdge:
      return at < 0 ? 0 : side - 1;
    case Border::kReflect: {
      if (side == 1) return 0;
      int phase = modulo(at, 2 * side - 2);
      return phase < side ? phase : 2 * side - 2 - phase;
    }
    case Border::kSymmetric: {
      int phase = modulo(at, 2 * side);
      return phase < side ? phase : 2 * side - 1 - phase;
    }
  }
  return -1;
}

void crop(const ImageView& in, const Box& box, const MutableImageView& out, const Border& border) {
  int begin = std::clamp(-box.left, 0, box.width);
  int end = std::clamp(in.width - box.left, begin, box.width);
  auto outside = [&](const uint8_t* from, uint8_t* to, int x) {
    int at = border_index(border.kind, box.left + x, in.width);
    std::memcpy(to + 3 * ptrdiff_t{x}, at < 0 ? border.fill.data() : from + 3 * ptrdiff_t{at}, 3);
  };
  for (int y = 0; y < box.height; ++y) {
    uint8_t* to = out.row(y);
    int line = border_index(border.kind, box.top + y, in.height);
    if (line < 0) {
      fill(to, box.width, border.fill);
      continue;
    }
    const uint8_t* from = in.row(line);
    for (int x = 0; x < begin; ++x) outside(from, to, x);
    if (end > begin) {
      std::memcpy(to + 3 * ptrdiff_t{begin}, from + 3 * (ptrdiff_t{box.left} + begin),
                  3 * size_t(end - begin));
    }
    for (int x = end; x < box.width; ++x) outside(from, to, x);
  }
}

}  // namespace stoker::image
