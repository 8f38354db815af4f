// SPDX-License-Identifier: Apache-2.0
#include "image/scan_reader.h"

#include <algorithm>
#include <cstdlib>

namespace stoker::image {
namespace {
constexpr int32_t kMaxDc = 1 << 15;  // far over what a sound picture has, far below an overflow
}

bool ScanReader::open(ByteView data, const JpegFrame& frame, const JpegKernels& kernels) {
  kernels_ = &kernels;
  uint8_t* plain = plain_.grow(data.size() - frame.scan + kScanPadding);
  if (plain == nullptr) return false;
  // No end marker, or another one before it: the file is cut, or not what it seems.
  auto bytes = plain_scan(data, frame.scan, plain);
  if (!bytes) return false;
  bits_ = {plain, 8 * uint64_t{*bytes}};
  state_ = {};
  int luma = frame.luma_blocks();
  tables_.blocks = luma + 2;
  for (int b = 0; b < tables_.blocks; ++b) {
    int c = std::max(0, b - luma + 1);
    tables_.component[b] = uint8_t(c);
    tables_.dc[b] = cache_.dc(frame.components[size_t(c)].dc);
    tables_.ac[b] = cache_.ac(frame.components[size_t(c)].ac);
    if (tables_.dc[b] == nullptr || tables_.ac[b] == nullptr) return false;
  }
  return true;
}

bool ScanReader::in_bounds() const {
  return std::all_of(std::begin(state_.dc), std::end(state_.dc),
                     [](int32_t dc) { return std::abs(dc) <= kMaxDc; });
}

void ScanReader::release() {
  plain_.release();
  cache_.release();
}

}  // namespace stoker::image
