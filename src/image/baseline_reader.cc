// SPDX-License-Identifier: Apache-2.0
#include "image/baseline_reader.h"

#include <algorithm>

namespace stoker::image {

bool BaselineReader::open(ByteView data, const Box& region, Isa isa, ByteView index) {
  auto frame = read_jpeg_frame(data);
  if (!frame || !inside(region, frame->size)) return false;
  const JpegKernels& kernels = jpeg_kernels_of(isa);
  if (!planes_.open(*frame, region, kernels) || !scan_.open(data, *frame, kernels)) return false;
  index_.reset();
  if (!index.empty()) index_ = ScanIndex::read(index, *frame);
  units_across_ = frame->units_across();
  y_ = region.top;
  end_ = region.top + region.height;
  row_ = 0;
  return true;
}

// Brings the scan from the beginning of the row to that unit.
bool BaselineReader::reach(int unit) {
  if (!index_) return scan_.skip(unit);
  ScanIndex::Point point = index_->before(row_, unit);
  return scan_.seek(point.state) && scan_.skip(unit - point.unit);
}

bool BaselineReader::decode_row() {
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
  if (more ? !scan_.skip(units_across_ - planes_.end_unit()) : !scan_.in_bounds()) return false;
  planes_.end_row(row_);
  ++row_;
  return true;
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
