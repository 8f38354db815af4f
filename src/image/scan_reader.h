// SPDX-License-Identifier: Apache-2.0
// ScanReader: the units of a baseline JPEG's scan, in order or from a known state on. Confined to one thread;
// reusable.
#pragma once

#include "base/bytes.h"
#include "image/buffer.h"
#include "image/huffman.h"
#include "image/jpeg_frame.h"
#include "image/jpeg_kernels.h"
#include "image/scan.h"

namespace stoker::image {

class ScanReader {
 public:
  // At the first unit. False if the scan does not end as it should, or its tables are wrong. Keeps no view of
  // `data`.
  bool open(ByteView data, const JpegFrame& frame, const JpegKernels& kernels);

  const ScanState& state() const { return state_; }
  // False if there are no such bits.
  bool seek(const ScanState& state) {
    state_ = state;
    return state.at <= bits_.end;
  }
  int blocks() const { return tables_.blocks; }  // in a unit

  // As the kernels' functions. False too if a DC value is out of all bounds.
  bool skip(int units) {
    return units == 0 || (kernels_->skip_units(tables_, bits_, &state_, units) && in_bounds());
  }
  bool decode(int16_t* blocks, uint8_t* last) {
    return kernels_->decode_unit(tables_, bits_, &state_, blocks, last);
  }
  bool in_bounds() const;

  size_t bytes() const { return plain_.bytes() + cache_.bytes(); }
  void release();

 private:
  const JpegKernels* kernels_ = nullptr;
  Buffer plain_;
  HuffmanCache cache_;
  ScanTables tables_;
  ScanBits bits_;
  ScanState state_;
};

}  // namespace stoker::image
