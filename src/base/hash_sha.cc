// SPDX-License-Identifier: Apache-2.0
// SHA-256's blocks by the CPU's own instructions for it: the same digests, several times as fast. Picked by
// hash.cc.
#include <cpuid.h>
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace stoker {

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1);
}

// `rounds`: the 64 constants. The instructions want the state as (f e b a) and (h g d c).
__attribute__((target("sha,sse4.1,ssse3"))) void sha256_blocks_sha(uint32_t* state, const uint8_t* at,
                                                                   size_t blocks, const uint32_t* rounds) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  auto load = [](const void* from) __attribute__((target("sha,sse4.1,ssse3"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  __m128i abcd = _mm_shuffle_epi32(load(state), 0xb1), efgh = _mm_shuffle_epi32(load(state + 4), 0x1b);
  __m128i abef = _mm_alignr_epi8(abcd, efgh, 8), cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);
  for (; blocks > 0; --blocks, at += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int i = 0; i < 4; ++i) words[i] = _mm_shuffle_epi8(load(at + 16 * i), swap);
    for (int group = 0; group < 16; ++group) {
      __m128i& now = words[group % 4];
      __m128i sum = _mm_add_epi32(now, load(rounds + 4 * group));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      if (group >= 12) continue;
      const __m128i &second = words[(group + 1) % 4], &third = words[(group + 2) % 4],
                    &last = words[(group + 3) % 4];
      now = _mm_sha256msg2_epu32(
          _mm_add_epi32(_mm_sha256msg1_epu32(now, second), _mm_alignr_epi8(last, third, 4)), last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace stoker
