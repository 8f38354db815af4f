// SPDX-License-Identifier: Apache-2.0
#include "image/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace stoker::image {
namespace {

// Below zero is outside, also between -1 and 0.
int whole(double at) { return at < 0 ? -1 : int(std::min(at, 2e9)); }

void put(uint8_t* to, const uint8_t* from) { std::memcpy(to, from, 3); }

// Without rotation and shear, Pillow adds up the step along each side.
std::vector<int> steps_along(double first, double step, int count) {
  std::vector<int> out(static_cast<size_t>(count));
  double at = first + step * 0.5;
  for (int& place : out) {
    place = whole(at);
    at += step;
  }
  return out;
}

void scale_nearest(const ImageView& in, const Warp& map, const MutableImageView& out) {
  std::vector<int> columns = steps_along(map.at[2], map.at[0], out.width);
  std::vector<int> lines = steps_along(map.at[5], map.at[4], out.height);
  for (int y = 0; y < out.height; ++y) {
    int line = lines[size_t(y)];
    bool inside = line >= 0 && line < in.height;
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      int column = columns[size_t(x)];
      bool found = inside && column >= 0 && column < in.width;
      put(to, found ? in.row(line) + 3 * ptrdiff_t{column} : map.fill.data());
    }
  }
}

// Pillow's 16.16 fixed point, where all corners fit into it.
bool fits_fixed(const Warp& map, Size out) {
  const auto& m = map.at;
  for (double x : {0.0, double(out.width)}) {
    for (double y : {0.0, double(out.height)}) {
      if (!(std::abs(x * m[0] + y * m[1] + m[2]) < 32768.0)) return false;
      if (!(std::abs(x * m[3] + y * m[4] + m[5]) < 32768.0)) return false;
    }
  }
  return true;
}

void affine_fixed(const ImageView& in, const Warp& map, const MutableImageView& out) {
  const auto& m = map.at;
  auto fixed = [](double value) { return int64_t(std::floor(value * 65536.0 + 0.5)); };
  int64_t step_x = fixed(m[0]), step_y = fixed(m[3]);
  int64_t down_x = fixed(m[1]), down_y = fixed(m[4]);
  int64_t line_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), line_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int y = 0; y < out.height; ++y, line_x += down_x, line_y += down_y) {
    int64_t at_x = line_x, at_y = line_y;
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3, at_x += step_x, at_y += step_y) {
      int64_t column = at_x >> 16, line = at_y >> 16;
      bool found = column >= 0 && column < in.width && line >= 0 && line < in.height;
      put(to, found ? in.row(int(line)) + 3 * column : map.fill.data());
    }
  }
}

struct Place {
  double x, y;
};

Place look(const Warp& map, int x, int y) {
  const auto& m = map.at;
  double at_x = x + 0.5, at_y = y + 0.5;
  Place place{m[0] * at_x + m[1] * at_y + m[2], m[3] * at_x + m[4] * at_y + m[5]};
  if (map.perspective) {
    double depth = m[6] * at_x + m[7] * at_y + 1;
    place.x /= depth;
    place.y /= depth;
  }
  return place;
}

bool outside(const Place& place, const ImageView& in) {
  return !(place.x >= 0 && place.x < in.width && place.y >= 0 && place.y < in.height);
}

void interpolate(const ImageView& in, Place place, uint8_t* to) {
  place.x -= 0.5;
  place.y -= 0.5;
  int x = int(std::floor(place.x)), y = int(std::floor(place.y));
  double right = place.x - x, below = place.y - y;
  ptrdiff_t at0 = 3 * ptrdiff_t{std::clamp(x, 0, in.width - 1)};
  ptrdiff_t at1 = 3 * ptrdiff_t{std::clamp(x + 1, 0, in.width - 1)};
  const uint8_t* upper = in.row(std::clamp(y, 0, in.height - 1));
  bool has_lower = y + 1 >= 0 && y + 1 < in.height;
  const uint8_t* lower = has_lower ? in.row(y + 1) : upper;
  for (int c = 0; c < 3; ++c) {
    double above = upper[at0 + c] + (upper[at1 + c] - upper[at0 + c]) * right;
    double under = lower[at0 + c] + (lower[at1 + c] - lower[at0 + c]) * right;
    if (!has_lower) under = above;
    to[c] = uint8_t(above + (under - above) * below);
  }
}

void general(const ImageView& in, const Warp& map, const MutableImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      Place place = look(map, x, y);
      if (outside(place, in)) {
        put(to, map.fill.data());
      } else if (map.bilinear) {
        interpolate(in, place, to);
      } else {
        put(to, in.row(int(place.y)) + 3 * ptrdiff_t(place.x));
      }
    }
  }
}

}  // namespace

void warp(const ImageView& in, const Warp& map, const MutableImageView& out) {
  if (map.bilinear || map.perspective) return general(in, map, out);
  if (map.at[1] == 0 && map.at[3] == 0) return scale_nearest(in, map, out);
  if (fits_fixed(map, out.size())) return affine_fixed(in, map, out);
  general(in, map, out);
}

}  // namespace stoker::image
