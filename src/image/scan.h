// SPDX-License-Identifier: Apache-2.0
// The coded data of a JPEG's only scan: to plain bits, and from bits to coefficients. Pure functions; the
// caller owns the memory. The loops themselves are in the kernels (jpeg_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "image/huffman.h"

namespace stoker::image {

// A unit may be decoded without looking whether the bits have ended: at most 6 blocks of 64 codes of 26 bits.
inline constexpr size_t kScanPadding = 2048;
inline constexpr int kMaxBlocks = 6;     // in a unit
inline constexpr int kBlockStride = 80;  // 64 coefficients, and room for what is decoded to be thrown away

// What the scan's loops need besides the bits; the same for a whole picture.
struct ScanTables {
  const DcTable* dc[kMaxBlocks];  // by block of a unit
  const AcTable* ac[kMaxBlocks];
  uint8_t component[kMaxBlocks];
  int blocks = 0;
};

// Between two units. All that decoding needs to begin there: a seek index stores just this.
struct ScanState {
  uint64_t at = 0;  // bits from the beginning
  int32_t dc[3] = {0, 0, 0};
};

struct ScanBits {
  const uint8_t* data = nullptr;  // kScanPadding zeros follow
  uint64_t end = 0;               // in bits
};

// Copies the coded data from `begin` up to the end marker without their stuffing, kScanPadding zeros behind;
// `out` has room for that. How many bytes there are; nothing if any other marker comes first, or none.
std::optional<size_t> plain_scan(ByteView data, size_t begin, uint8_t* out);

}  // namespace stoker::image
