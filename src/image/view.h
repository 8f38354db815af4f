// SPDX-License-Identifier: Apache-2.0
// Pictures as views of memory that somebody else owns: 8-bit RGB, rows of interleaved pixels (HWC). Values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker::image {

struct Size {
  int width = 0;
  int height = 0;
  bool operator==(const Size&) const = default;
};

struct Box {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  Size size() const { return {width, height}; }
  bool operator==(const Box&) const = default;
};

// Three bytes a pixel; row y starts at data + y * stride.
struct ImageView {
  const uint8_t* data = nullptr;
  int width = 0;
  int height = 0;
  ptrdiff_t stride = 0;

  Size size() const { return {width, height}; }
  const uint8_t* row(int y) const { return data + y * stride; }
  // The part of it under `box`, which must lie inside.
  ImageView crop(const Box& box) const {
    return {data + box.top * stride + 3 * ptrdiff_t{box.left}, box.width, box.height, stride};
  }
};

struct MutableImageView {
  uint8_t* data = nullptr;
  int width = 0;
  int height = 0;
  ptrdiff_t stride = 0;

  Size size() const { return {width, height}; }
  uint8_t* row(int y) const { return data + y * stride; }
  operator ImageView() const { return {data, width, height, stride}; }
};

// Rows without a gap, as NumPy and torch hold them.
inline MutableImageView packed(uint8_t* data, Size size) {
  return {data, size.width, size.height, 3 * ptrdiff_t{size.width}};
}

inline bool inside(const Box& box, Size size) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= size.width - box.left && box.height <= size.height - box.top;
}

}  // namespace stoker::image
