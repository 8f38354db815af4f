// SPDX-License-Identifier: Apache-2.0
#include "image/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace stoker::image {
namespace {

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

void map(const MutableImageView& picture, const Table (&tables)[3]) {
  for (int y = 0; y < picture.height; ++y) {
    uint8_t* at = picture.row(y);
    for (int x = 0; x < picture.width; ++x, at += 3) {
      at[0] = tables[0][at[0]];
      at[1] = tables[1][at[1]];
      at[2] = tables[2][at[2]];
    }
  }
}

template <typename Value>
void map_all(const MutableImageView& picture, Value value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[size_t(i)] = uint8_t(value(i));
  map(picture, {table, table, table});
}

// Pillow's Image.blend() of one value.
uint8_t blended(int from, int to, float factor) {
  float value = float(from) + factor * float(to - from);
  if (value <= 0.0F) return 0;
  return value >= 255.0F ? 255 : uint8_t(value);
}

int gray_of(const uint8_t* rgb) { return (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16; }

void histograms(const ImageView& picture, Histogram (&counts)[3]) {
  for (Histogram& count : counts) count.fill(0);
  for (int y = 0; y < picture.height; ++y) {
    const uint8_t* at = picture.row(y);
    for (int x = 0; x < picture.width; ++x, at += 3) {
      for (int c = 0; c < 3; ++c) ++counts[c][at[c]];
    }
  }
}

template <typename TableOf>
void map_by_histogram(const MutableImageView& picture, TableOf table_of) {
  Histogram counts[3];
  histograms(picture, counts);
  Table tables[3];
  for (int c = 0; c < 3; ++c) tables[c] = table_of(counts[c]);
  map(picture, tables);
}

Table identity() {
  Table table;
  for (int i = 0; i < 256; ++i) table[size_t(i)] = uint8_t(i);
  return table;
}

Table stretched(const Histogram& count) {
  int low = 0, high = 255;
  while (low < 255 && count[size_t(low)] == 0) ++low;
  while (high > 0 && count[size_t(high)] == 0) --high;
  if (high <= low) return identity();
  double scale = 255.0 / (high - low);
  double offset = -low * scale;
  Table table;
  for (int i = 0; i < 256; ++i) table[size_t(i)] = uint8_t(std::clamp(int(i * scale + offset), 0, 255));
  return table;
}

Table equalized(const Histogram& count) {
  int64_t sum = 0, last = 0;
  int kinds = 0;
  for (int64_t n : count) {
    sum += n;
    if (n != 0) last = n, ++kinds;
  }
  int64_t step = (sum - last) / 255;
  if (kinds <= 1 || step == 0) return identity();
  Table table;
  int64_t n = step / 2;
  for (int i = 0; i < 256; ++i) {
    table[size_t(i)] = uint8_t(std::min<int64_t>(n / step, 255));
    n += count[size_t(i)];
  }
  return table;
}

}  // namespace

void adjust_brightness(const MutableImageView& picture, float factor) {
  map_all(picture, [&](int i) { return blended(0, i, factor); });
}

void adjust_contrast(const MutableImageView& picture, float factor) {
  int64_t sum = 0;
  for (int y = 0; y < picture.height; ++y) {
    const uint8_t* at = picture.row(y);
    int64_t line = 0;
    for (int x = 0; x < picture.width; ++x, at += 3) line += gray_of(at);
    sum += line;
  }
  int mean = int(double(sum) / (double(picture.width) * picture.height) + 0.5);
  map_all(picture, [&](int i) { return blended(mean, i, factor); });
}

void adjust_saturation(const MutableImageView& picture, float factor) {
  for (int y = 0; y < picture.height; ++y) {
    uint8_t* at = picture.row(y);
    for (int x = 0; x < picture.width; ++x, at += 3) {
      int gray = gray_of(at);
      for (int c = 0; c < 3; ++c) at[c] = blended(gray, at[c], factor);
    }
  }
}

void adjust_sharpness(const ImageView& in, float factor, const MutableImageView& out) {
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* line = in.row(y);
    uint8_t* to = out.row(y);
    bool outermost = y == 0 || y == in.height - 1;
    const uint8_t* above = outermost ? line : in.row(y - 1);
    const uint8_t* below = outermost ? line : in.row(y + 1);
    ptrdiff_t bytes = 3 * ptrdiff_t{in.width};
    for (ptrdiff_t i = 0; i < bytes; ++i) {
      int smooth = line[i];
      if (!outermost && i >= 3 && i < bytes - 3) {
        int sum = above[i - 3] + above[i] + above[i + 3] + line[i - 3] + 5 * line[i] + line[i + 3] +
                  below[i - 3] + below[i] + below[i + 3];
        smooth = (2 * sum + 13) / 26;  // thirteenths have no ties: Pillow's floats round to the same
      }
      to[i] = blended(smooth, line[i], factor);
    }
  }
}

void to_gray(const MutableImageView& picture) {
  for (int y = 0; y < picture.height; ++y) {
    uint8_t* at = picture.row(y);
    for (int x = 0; x < picture.width; ++x, at += 3) at[0] = at[1] = at[2] = uint8_t(gray_of(at));
  }
}

void invert(const MutableImageView& picture) {
  map_all(picture, [](int i) { return 255 - i; });
}

void posterize(const MutableImageView& picture, int bits) {
  int mask = 0xff & ~((1 << (8 - bits)) - 1);
  map_all(picture, [&](int i) { return i & mask; });
}

void solarize(const MutableImageView& picture, double threshold) {
  map_all(picture, [&](int i) { return i < threshold ? i : 255 - i; });
}

void autocontrast(const MutableImageView& picture) { map_by_histogram(picture, stretched); }
void equalize(const MutableImageView& picture) { map_by_histogram(picture, equalized); }

}  // namespace stoker::image
