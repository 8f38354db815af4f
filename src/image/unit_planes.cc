// SPDX-License-Identifier: Apache-2.0
#include "image/unit_planes.h"

#include <algorithm>

namespace stoker::image {
namespace {

constexpr int kLead = 32;   // bytes of a plane's row before the first unit: a sample to its left is read
constexpr int kTrail = 96;  // after the last: kernels read past what they need

// From zigzag order, in which quantization tables are stored.
constexpr uint8_t kRows[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                               12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                               35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                               58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

}  // namespace

bool UnitPlanes::open(const JpegFrame& frame, const Box& region, const JpegKernels& kernels) {
  frame_ = frame;
  region_ = region;
  kernels_ = &kernels;
  // libjpeg does not smooth chroma as narrow as that.
  if (frame_.luma_h == 2 && frame_.size.width <= 4) return false;
  left_ = region.left / frame_.luma_h * frame_.luma_h;
  pairs_ = (frame_.luma_blocks() + 3) / 2;
  choose_units();
  if (!make_planes()) return false;
  set_steps();
  return true;
}

// Those that the region covers, and with smooth chroma a sample around it.
void UnitPlanes::choose_units() {
  int width = frame_.unit_width();
  int first = left_;
  int last = region_.left + region_.width - 1;
  if (frame_.luma_h == 2) {
    first = std::max(0, first - 2);
    last = std::min(frame_.size.width - 1, last + 2);
  }
  first_unit_ = first / width;
  end_unit_ = last / width + 1;
  int above = region_.top;
  if (frame_.luma_v == 2 && above % 2 == 0) above = std::max(0, above - 1);
  first_row_ = above / frame_.unit_height();
}

int UnitPlanes::needed_row(int y) const {
  if (frame_.luma_v == 1) return y / 8;
  int rows = (frame_.size.height + 1) / 2;
  return std::min(y / 2 + y % 2, rows - 1) / 8;
}

bool UnitPlanes::make_planes() {
  size_t width = size_t(end_unit_ - first_unit_) * size_t(frame_.unit_width());
  stride_ = ptrdiff_t(round_up(width + kLead + kTrail, 64));
  int luma_rows = 2 * frame_.unit_height();
  constexpr int kChromaRows = 2 * 8;
  constexpr int kSpareRows = 8;  // for a block that is there only to make a pair
  size_t bytes = size_t(stride_) * size_t(luma_rows + 2 * kChromaRows + kSpareRows);
  uint8_t* memory = planes_.grow(bytes);
  if (memory == nullptr) return false;
  memory += kLead;
  plane_[0] = memory;
  plane_[1] = plane_[0] + luma_rows * stride_;
  plane_[2] = plane_[1] + kChromaRows * stride_;
  uint8_t* spare = plane_[2] + kChromaRows * stride_;
  int luma = frame_.luma_blocks();
  for (int b = 0; b < luma; ++b) {
    int x = b % frame_.luma_h;
    int y = b / frame_.luma_h;
    blocks_[b] = {plane_[0] + 8 * y * stride_ + 8 * x, frame_.unit_height() * stride_, frame_.unit_width()};
  }
  for (int c = 1; c < 3; ++c) blocks_[luma + c - 1] = {plane_[c], 8 * stride_, 8};
  if (luma % 2 != 0) blocks_[luma + 2] = {spare, 0, 0};
  return true;
}

void UnitPlanes::set_steps() {
  for (int b = 0; b < frame_.luma_blocks() + 2; ++b) {
    const uint8_t* quant = frame_.components[size_t(std::max(0, b - frame_.luma_blocks() + 1))].quant;
    int16_t* steps = steps_[b / 2] + b % 2 * 8;
    for (int i = 0; i < 64; ++i) steps[kRows[i] / 8 * 16 + kRows[i] % 8] = quant[i];
  }
}

uint8_t* UnitPlanes::sample_row(int c, int y) const {
  int rows = c == 0 ? 2 * frame_.unit_height() : 2 * 8;
  return plane_[c] + y % rows * stride_;
}

void UnitPlanes::put(int row, int unit, const int16_t* coefficients, const uint8_t* last) {
  ptrdiff_t strip = row % 2;
  unit -= first_unit_;
  uint8_t* out[kMaxBlocks];
  for (int b = 0; b < 2 * pairs_; ++b) {
    out[b] = blocks_[b].at + strip * blocks_[b].next_strip + unit * blocks_[b].next_unit;
  }
  int p = 0;
  for (; kernels_->transform_four != nullptr && p + 2 <= pairs_; p += 2) {
    kernels_->transform_four(coefficients + 2 * p * kBlockStride, last + 2 * p, steps_[p], out + 2 * p,
                             stride_);
  }
  for (; p < pairs_; ++p) {
    kernels_->transform(coefficients + 2 * p * kBlockStride, last + 2 * p, steps_[p], out + 2 * p, stride_);
  }
}

// Beside the picture's edge chroma goes on as it ends.
void UnitPlanes::end_row(int row) {
  if (frame_.luma_h != 2) return;
  int last = (frame_.size.width + 1) / 2 - 1 - 8 * first_unit_;
  for (int c = 1; c < 3; ++c) {
    for (int y = 8 * row; y < 8 * row + 8; ++y) {
      uint8_t* samples = sample_row(c, y);
      if (first_unit_ == 0) samples[-1] = samples[0];
      if (end_unit_ == frame_.units_across()) samples[last + 1] = samples[last];
    }
  }
}

void UnitPlanes::convert(int y, uint8_t* out) const {
  int width = region_.left + region_.width - left_;
  int x = left_ - first_unit_ * frame_.unit_width();
  const uint8_t* luma = sample_row(0, y) + x;
  if (frame_.luma_h == 1) {
    kernels_->to_rgb(luma, sample_row(1, y) + x, sample_row(2, y) + x, width, out);
    return;
  }
  bool half = frame_.luma_v == 2;
  int near = half ? y / 2 : y;
  int far = near;
  if (half) far = y % 2 == 0 ? std::max(near - 1, 0) : std::min(near + 1, (frame_.size.height + 1) / 2 - 1);
  const int* bias = half ? kBiasHalf : kBiasFull;
  ChromaRows chroma = {{sample_row(1, near) + x / 2, sample_row(1, far) + x / 2},
                       {sample_row(2, near) + x / 2, sample_row(2, far) + x / 2},
                       {bias[0], bias[1]}};
  kernels_->to_rgb_smooth(luma, chroma, width, out);
}

}  // namespace stoker::image
