// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 as a function that compilers can unroll and make vectors of. Pure; random.h is for everybody
// who draws one at a time.
#pragma once

#include <array>
#include <cstdint>

namespace stoker {

inline std::array<uint32_t, 4> philox_rounds(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

}  // namespace stoker
