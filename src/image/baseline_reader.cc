// SPDX-License-Identifier: Apache-2.0
#include "image/baseline_reader.h"

#include <algorithm>

namespace stoker::image {

bool BaselineReader::open(ByteView data, const Box& region, Isa isa, ByteView index) {
  auto frame = read_jpeg_frame(data);
  if (!frame || !inside(region, frame->size)) return false;
  const JpegKernels& kernels = jpeg_kernels_of(isa);
  if (!planes_.open(*frame, region, kernels) || !scan_.open(data, *frame, kernels)) return false;
  kept_.reset();
  index_.reset();
  if (!index.empty()) index_ = ScanIndex::read(index, *frame);
  units_across_ = frame->units_across();
  y_ = region.top;
  end_ = region.top + region.height;
  row_ = 0;
  return true;
}

bool BaselineReader::open(KeptCoefficients& kept, const Box& region, Isa isa) {
  kept_ = Coefficients::read(kept.head());
  if (!kept_ || !inside(region, kept_->frame().size)) return false;
  kernels_ = &jpeg_kernels_of(isa);
  if (!planes_.open(kept_->frame(), region, *kernels_)) return false;
  kept_rows_ = kept.read(kept_->begin(planes_.first_row()), kept_->end(planes_.last_row()));
  if (kept_rows_ == nullptr) return false;
  y_ = region.top;
  end_ = region.top + region.height;
  row_ = planes_.first_row();
  return true;
}

// Brings the scan from the beginning of the row to that unit.
bool BaselineReader::reach(int unit) {
  if (!index_) return scan_.skip(unit);
  ScanIndex::Point point = index_->before(row_, unit);
  return scan_.seek(point.state) && scan_.skip(unit - point.unit);
}

bool BaselineReader::decode_row() {
  if (kept_ ? !decode_kept() : !decode_scan()) return false;
  planes_.end_row(row_);
  ++row_;
  return true;
}

bool BaselineReader::decode_kept() {
  size_t begin = kept_->begin(row_);
  ByteView bytes(kept_rows_ + (begin - kept_->begin(planes_.first_row())), kept_->end(row_) - begin);
  CoefficientRow row;
  if (!kept_->is_sound(row_, bytes) || !row.open(bytes, kept_->blocks_in_row(), *kernels_)) return false;
  int blocks = kept_->frame().luma_blocks() + 2;
  row.skip(size_t(blocks) * size_t(planes_.first_unit()));
  alignas(64) int16_t coefficients[kMaxBlocks * kBlockStride];
  uint8_t last[kMaxBlocks] = {};
  if (blocks % 2 != 0) std::fill_n(coefficients + blocks * kBlockStride, kBlockStride, int16_t{0});
  for (int unit = planes_.first_unit(); unit < planes_.end_unit(); ++unit) {
    row.expand(blocks, coefficients, last);
    planes_.put(row_, unit, coefficients, last);
  }
  return true;
}

bool BaselineReader::decode_scan() {
  if (!reach(planes_.first_unit())) return false;
  alignas(64) int16_t blocks[kMaxBlocks * kBlockStride];
  uint8_t last[kMaxBlocks] = {};
  if (scan_.blocks() % 2 != 0) {
    std::fill_n(blocks + scan_.blocks() * kBlockStride, kBlockStride, int16_t{0});
  }
  for (int unit = planes_.first_unit(); unit < planes_.end_unit(); ++unit) {
    if (!scan_.decode(blocks, last)) return false;
    planes_.put(row_, unit, blocks, last);
  }
  // What follows the region in the last row that it needs is not looked at.
  bool more = row_ < planes_.last_row() && !index_;
  return more ? scan_.skip(units_across_ - planes_.end_unit()) : scan_.in_bounds();
}

int BaselineReader::read(uint8_t* const* rows, int count) {
  count = std::min(count, end_ - y_);
  for (int i = 0; i < count; ++i, ++y_) {
    for (; row_ < planes_.first_row(); ++row_) {
      if (!index_ && !scan_.skip(units_across_)) return -1;
    }
    while (row_ <= planes_.needed_row(y_)) {
      if (!decode_row()) return -1;
    }
    planes_.convert(y_, rows[i]);
  }
  return count;
}

void BaselineReader::release() {
  scan_.release();
  planes_.release();
}

}  // namespace stoker::image
