// SPDX-License-Identifier: Apache-2.0
#include "image/baseline_reader.h"

#include <algorithm>
#include <cstdlib>

namespace stoker::image {
namespace {

constexpr int kLead = 32;   // bytes of a plane's row before the first unit: a sample to its left is read
constexpr int kTrail = 96;  // after the last: kernels read past what they need
constexpr int32_t kMaxDc = 1 << 15;  // far over what a sound picture has, far below an overflow

// From zigzag order, in which quantization tables are stored.
constexpr uint8_t kRows[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                               12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                               35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                               58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

}  // namespace

bool BaselineReader::open(ByteView data, const Box& region, Isa isa) {
  auto frame = read_jpeg_frame(data);
  if (!frame || !inside(region, frame->size)) return false;
  frame_ = *frame;
  region_ = region;
  kernels_ = &jpeg_kernels_of(isa);
  // libjpeg does not smooth chroma as narrow as that.
  if (frame_.luma_h == 2 && frame_.size.width <= 4) return false;
  left_ = region.left / frame_.luma_h * frame_.luma_h;
  y_ = region.top;
  if (!open_scan(data)) return false;
  choose_units();
  if (!make_planes()) return false;
  set_steps();
  return true;
}

bool BaselineReader::open_scan(ByteView data) {
  uint8_t* plain = scan_.grow(data.size() - frame_.scan + kScanPadding);
  if (plain == nullptr) return false;
  // No end marker, or another one before it: the file is cut, or not what it seems.
  auto bytes = plain_scan(data, frame_.scan, plain);
  if (!bytes) return false;
  bits_ = {plain, 8 * uint64_t{*bytes}};
  state_ = {};
  int luma = frame_.luma_blocks();
  scan_tables_.blocks = luma + 2;
  for (int b = 0; b < scan_tables_.blocks; ++b) {
    int c = std::max(0, b - luma + 1);
    scan_tables_.component[b] = uint8_t(c);
    scan_tables_.dc[b] = tables_.dc(frame_.components[size_t(c)].dc);
    scan_tables_.ac[b] = tables_.ac(frame_.components[size_t(c)].ac);
    if (scan_tables_.dc[b] == nullptr || scan_tables_.ac[b] == nullptr) return false;
  }
  return true;
}

// Those that the region covers, and with smooth chroma a sample around it.
void BaselineReader::choose_units() {
  int width = frame_.unit_width();
  int first = left_;
  int last = region_.left + region_.width - 1;
  if (frame_.luma_h == 2) {
    first = std::max(0, first - 2);
    last = std::min(frame_.size.width - 1, last + 2);
  }
  first_unit_ = first / width;
  end_unit_ = last / width + 1;
  row_ = 0;
  last_row_ = needed_row(region_.top + region_.height - 1);
}

// The last row of units that pixels of row y come from.
int BaselineReader::needed_row(int y) const {
  if (frame_.luma_v == 1) return y / 8;
  int rows = (frame_.size.height + 1) / 2;
  return std::min(y / 2 + y % 2, rows - 1) / 8;
}

bool BaselineReader::make_planes() {
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

void BaselineReader::set_steps() {
  for (int b = 0; b < scan_tables_.blocks; ++b) {
    const uint8_t* quant = frame_.components[scan_tables_.component[b]].quant;
    int16_t* steps = steps_[b / 2] + b % 2 * 8;
    for (int i = 0; i < 64; ++i) steps[kRows[i] / 8 * 16 + kRows[i] % 8] = quant[i];
  }
}

uint8_t* BaselineReader::sample_row(int c, int y) const {
  int rows = c == 0 ? 2 * frame_.unit_height() : 2 * 8;
  return plane_[c] + y % rows * stride_;
}

// Rows of units above the region.
bool BaselineReader::skip_rows() {
  int above = region_.top;
  if (frame_.luma_v == 2 && above % 2 == 0) above = std::max(0, above - 1);
  for (; row_ < above / frame_.unit_height(); ++row_) {
    if (!kernels_->skip_units(scan_tables_, bits_, &state_, frame_.units_across())) return false;
    for (int32_t dc : state_.dc) {
      if (std::abs(dc) > kMaxDc) return false;
    }
  }
  return true;
}

bool BaselineReader::decode_row() {
  if (!kernels_->skip_units(scan_tables_, bits_, &state_, first_unit_)) return false;
  alignas(64) int16_t coefficients[kMaxBlocks * kBlockStride];
  uint8_t last[kMaxBlocks] = {};
  int pairs = (scan_tables_.blocks + 1) / 2;
  if (scan_tables_.blocks % 2 != 0) {
    std::fill_n(coefficients + scan_tables_.blocks * kBlockStride, kBlockStride, int16_t{0});
  }
  ptrdiff_t strip = row_ % 2;
  for (int unit = 0; unit < end_unit_ - first_unit_; ++unit) {
    if (!kernels_->decode_unit(scan_tables_, bits_, &state_, coefficients, last)) return false;
    for (int p = 0; p < pairs; ++p) {
      const Block* blocks = blocks_ + 2 * p;
      uint8_t* const out[2] = {blocks[0].at + strip * blocks[0].next_strip + unit * blocks[0].next_unit,
                               blocks[1].at + strip * blocks[1].next_strip + unit * blocks[1].next_unit};
      kernels_->transform(coefficients + 2 * p * kBlockStride, last + 2 * p, steps_[p], out, stride_);
    }
  }
  // What follows the region in the last row that it needs is not looked at.
  if (row_ < last_row_ &&
      !kernels_->skip_units(scan_tables_, bits_, &state_, frame_.units_across() - end_unit_)) {
    return false;
  }
  for (int32_t dc : state_.dc) {
    if (std::abs(dc) > kMaxDc) return false;
  }
  if (frame_.luma_h == 2) extend_edges(row_);
  ++row_;
  return true;
}

// Beside the picture's edge chroma goes on as it ends.
void BaselineReader::extend_edges(int row) {
  int last = (frame_.size.width + 1) / 2 - 1 - 8 * first_unit_;
  for (int c = 1; c < 3; ++c) {
    for (int y = 8 * row; y < 8 * row + 8; ++y) {
      uint8_t* samples = sample_row(c, y);
      if (first_unit_ == 0) samples[-1] = samples[0];
      if (end_unit_ == frame_.units_across()) samples[last + 1] = samples[last];
    }
  }
}

void BaselineReader::convert(int y, uint8_t* out) const {
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

int BaselineReader::read(uint8_t* const* rows, int count) {
  count = std::min(count, region_.top + region_.height - y_);
  for (int i = 0; i < count; ++i, ++y_) {
    if (row_ <= needed_row(y_)) {
      if (!skip_rows()) return -1;
      while (row_ <= needed_row(y_)) {
        if (!decode_row()) return -1;
      }
    }
    convert(y_, rows[i]);
  }
  return count;
}

void BaselineReader::release() {
  scan_.release();
  planes_.release();
  tables_.release();
}

}  // namespace stoker::image
