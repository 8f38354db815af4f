// SPDX-License-Identifier: Apache-2.0
#include "image/normalize.h"

#include <cmath>
#include <cstring>

#include "image/kernels.h"

namespace stoker::image {

NormalizeTable::NormalizeTable(ToFloat to_float, const std::optional<MeanStd>& normalize) {
  if (to_float == ToFloat::kMultiply) map_.scale = static_cast<float>(1.0 / 255.0);
  if (to_float == ToFloat::kDivide) {
    map_.divide = true;
    map_.scale = 255.0F;
  }
  map_.normalize = normalize.has_value();
  map_.by_reciprocal = map_.normalize;
  for (int c = 0; c < 3; ++c) {
    if (normalize) {
      map_.mean[c] = static_cast<float>(normalize->mean[size_t(c)]);
      map_.std[c] = static_cast<float>(normalize->std[size_t(c)]);
      map_.reciprocal[c] = 1.0F / map_.std[c];
    }
    for (int value = 0; value < 256; ++value) {
      float scaled = map_.divide ? float(value) / map_.scale : float(value) * map_.scale;
      float centered = scaled - map_.mean[c];
      float entry = normalize ? centered / map_.std[c] : scaled;
      float quotient = centered * map_.reciprocal[c];
      float corrected = std::fma(std::fma(-quotient, map_.std[c], centered), map_.reciprocal[c], quotient);
      if (std::memcmp(&corrected, &entry, sizeof entry) != 0) map_.by_reciprocal = false;
      map_.entries[c][value] = entry;
    }
  }
}

void to_float_chw(const ImageView& in, const NormalizeTable& table, bool mirror, float* out) {
  size_t plane = size_t(in.width) * size_t(in.height);
  for (int y = 0; y < in.height; ++y, out += in.width) {
    float* const rows[3] = {out, out + plane, out + 2 * plane};
    kernels().to_floats(in.row(y), in.width, mirror, table.map(), rows);
  }
}

void to_bytes_chw(const ImageView& in, bool mirror, uint8_t* out) {
  size_t plane = size_t(in.width) * size_t(in.height);
  for (int y = 0; y < in.height; ++y, out += in.width) {
    uint8_t* const rows[3] = {out, out + plane, out + 2 * plane};
    kernels().to_planes(in.row(y), in.width, mirror, rows);
  }
}

void from_planes(const uint8_t* in, const MutableImageView& out) {
  size_t plane = size_t(out.width) * size_t(out.height);
  for (int y = 0; y < out.height; ++y, in += out.width) {
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x, to += 3) {
      to[0] = in[x];
      to[1] = in[x + plane];
      to[2] = in[x + 2 * plane];
    }
  }
}

}  // namespace stoker::image
