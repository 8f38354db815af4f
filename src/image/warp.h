// SPDX-License-Identifier: Apache-2.0
// Affine and perspective maps with the arithmetic of Pillow's Image.transform(): bit-equal. Pure functions on
// views.
#pragma once

#include <array>
#include <cstdint>

#include "image/view.h"

namespace stoker::image {

// Where output pixel (x, y) looks into the input, both measured at pixel centres:
// ((a x + b y + c) / w, (d x + e y + f) / w), w = g x + h y + 1 where it is a perspective, else 1.
struct Warp {
  std::array<double, 8> at{1, 0, 0, 0, 1, 0, 0, 0};  // a … h
  bool perspective = false;
  bool bilinear = false;                 // else the nearest pixel
  std::array<uint8_t, 3> fill{0, 0, 0};  // where it looks outside
};

// Not in place.
void warp(const ImageView& in, const Warp& map, const MutableImageView& out);

}  // namespace stoker::image
