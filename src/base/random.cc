// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include "base/hash.h"
#include "base/philox.h"

namespace stoker {

PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<uint32_t, 2> key) {
  return philox_rounds(counter, key);
}

uint64_t seed_key(uint64_t seed) {
  uint8_t raw[8];
  store_le(raw, seed);
  return xxh3_64(raw, 0x73746f6b65720001);  // "stoker" 1: a seed hashed for another purpose gives another key
}

PhiloxBlock SampleRandom::block() {
  return philox4x32_10(
      {static_cast<uint32_t>(position_), static_cast<uint32_t>(position_ >> 32), op_, draw_++},
      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
}

uint64_t SampleRandom::next_u64() {
  PhiloxBlock drawn = block();
  return uint64_t{drawn[1]} << 32 | drawn[0];
}

double SampleRandom::next_unit() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

double SampleRandom::next_uniform(double low, double high) { return low + (high - low) * next_unit(); }

uint64_t SampleRandom::next_below(uint64_t bound) {
  // Lemire's multiply-and-reject: unbiased, and one draw nearly always.
  uint64_t threshold = -bound % bound;
  while (true) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(next_u64()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

}  // namespace stoker
