// SPDX-License-Identifier: Apache-2.0
// XXH3-64 compiled for AVX2: the same hashes, twice as fast as what every x86-64 has. Picked by hash.cc.
#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stoker {

uint64_t xxh3_64_avx2(const uint8_t* at, size_t size, uint64_t seed) {
  return seed == 0 ? XXH3_64bits(at, size) : XXH3_64bits_withSeed(at, size, seed);
}

}  // namespace stoker
