// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of TFRecord files. By the CPU's instruction where it has one. Pure.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace stoker {

uint32_t crc32c(ByteView bytes);
uint32_t crc32c_scalar(ByteView bytes);  // the truth

// Checksums that are stored beside what they cover are rotated and offset, so that a checksum of a checksum
// is not a constant.
inline uint32_t masked_crc32c(ByteView bytes) {
  uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace stoker
