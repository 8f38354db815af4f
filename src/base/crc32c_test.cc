// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

TEST(Crc32c, AgreesWithThePublishedVectors) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  std::vector<uint8_t> bytes(32, 0);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aaU);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43U);
  for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eU);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, TheInstructionGivesWhatTheTableGives) {
  std::vector<uint8_t> bytes(10'000);
  uint32_t state = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  for (size_t size : {0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 9999, 10'000})
    for (size_t from : {0, 1, 5})
      if (from <= size) {
        ByteView view = ByteView(bytes).subspan(from, size - from);
        EXPECT_EQ(crc32c(view), crc32c_scalar(view)) << size << " from " << from;
      }
}

}  // namespace
}  // namespace stoker
