// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11): random numbers as a
// pure function of a key and a counter, so that no generator state exists anywhere. Pure.
//
// Every random parameter of stoker is draw `draw` of op `op` of the sample at position `p`:
// key = seed_key(seed), counter = (p low, p high, op, draw).
#pragma once

#include <array>
#include <cstdint>

namespace stoker {

using PhiloxBlock = std::array<uint32_t, 4>;

PhiloxBlock philox4x32_10(PhiloxBlock counter, std::array<uint32_t, 2> key);

// Spreads a user's seed over 64 bits, so that neighbouring seeds have unrelated streams.
uint64_t seed_key(uint64_t seed);

// The draws of one op of one sample. A value; `next_*` walk the draws, each costs one Philox block.
class SampleRandom {
 public:
  SampleRandom(uint64_t key, uint64_t position, uint32_t op) : key_(key), position_(position), op_(op) {}

  uint32_t next_u32() { return block()[0]; }
  uint64_t next_u64();
  double next_unit();                            // uniform in [0, 1), 53 bits
  double next_uniform(double low, double high);  // uniform in [low, high)
  uint64_t next_below(uint64_t bound);           // uniform in [0, bound), bound > 0; unbiased
 private:
  PhiloxBlock block();
  uint64_t key_;
  uint64_t position_;
  uint32_t op_;
  uint32_t draw_ = 0;
};

}  // namespace stoker
