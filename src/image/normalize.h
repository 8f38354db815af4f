// SPDX-License-Identifier: Apache-2.0
// Bytes to float32 by a table of 256 x 3 entries, each made with torchvision's own order of float32
// operations, so that the result has the same bits as ToDtype(float32, scale=True) or ToTensor() followed by
// Normalize. Pure.
#pragma once

#include <array>
#include <optional>

#include "image/view.h"

namespace stoker::image {

enum class ToFloat {
  kMultiply,  // v2.ToDtype(torch.float32, scale=True): times float32(1/255)
  kDivide,    // v1 and v2 ToTensor(): divided by 255
  kUnscaled,  // ToDtype(torch.float32, scale=False)
};

struct MeanStd {
  std::array<double, 3> mean;
  std::array<double, 3> std;
};

// The table's entries and how they were made, for kernels that find it cheaper to compute than to look up.
struct FloatMap {
  float entries[3][256];
  bool divide = false;  // value / scale rather than value * scale
  float scale = 1;
  bool normalize = false;  // then (scaled - mean) / std
  float mean[3] = {0, 0, 0};
  float std[3] = {1, 1, 1};
  // True if a product with the reciprocal and one correction give the division's bits for every entry: much
  // cheaper.
  bool by_reciprocal = false;
  float reciprocal[3] = {1, 1, 1};
};

class NormalizeTable {
 public:
  // Without `normalize`, conversion alone.
  NormalizeTable(ToFloat to_float, const std::optional<MeanStd>& normalize);
  float at(int channel, uint8_t value) const { return map_.entries[channel][value]; }
  const FloatMap& map() const { return map_; }

 private:
  FloatMap map_;
};

// HWC bytes to CHW: plane c starts at out + c * width * height, rows without a gap. With `mirror`, left and
// right change.
void to_float_chw(const ImageView& in, const NormalizeTable& table, bool mirror, float* out);
void to_bytes_chw(const ImageView& in, bool mirror, uint8_t* out);
// CHW bytes without gaps to a picture.
void from_planes(const uint8_t* in, const MutableImageView& out);

}  // namespace stoker::image
