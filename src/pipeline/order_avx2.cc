// SPDX-License-Identifier: Apache-2.0
// Bijection::forward_many() for AVX2: four numbers in a vector, each in the low half of 64 bits, where a
// product needs no shuffling. What is in the high halves is never looked at.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace stoker::pipeline {
namespace {

// The first of the four words that Philox4x32-10 makes of {counter, round, 0, 0}.
inline __m256i philox_word(__m256i counter, __m256i round, uint32_t key0, uint32_t key1) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53), multiplier1 = _mm256_set1_epi64x(0xCD9E8D57);
  __m256i c0 = counter, c1 = round, c2 = _mm256_setzero_si256(), c3 = c2;
#pragma GCC unroll 10
  for (int i = 0; i < 10; ++i) {
    __m256i product0 = _mm256_mul_epu32(multiplier0, c0), product1 = _mm256_mul_epu32(multiplier1, c2);
    c0 = _mm256_xor_si256(_mm256_srli_epi64(product1, 32), _mm256_xor_si256(c1, _mm256_set1_epi64x(key0)));
    c2 = _mm256_xor_si256(_mm256_srli_epi64(product0, 32), _mm256_xor_si256(c3, _mm256_set1_epi64x(key1)));
    c1 = product1;
    c3 = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c0;
}

}  // namespace

void forward_many_avx2(uint64_t* blocks, size_t count, int half_bits, uint64_t key, int rounds) {
  constexpr size_t kVectors = 4;  // side by side: one alone would wait for its products
  const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>((uint64_t{1} << half_bits) - 1));
  const __m128i half = _mm_cvtsi32_si128(half_bits);
  const auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (size_t at = 0; at < count; at += 4 * kVectors) {
    __m256i left[kVectors], right[kVectors];
    auto* to = reinterpret_cast<__m256i*>(blocks + at);
    for (size_t v = 0; v < kVectors; ++v) {
      __m256i block = _mm256_loadu_si256(to + v);
      left[v] = _mm256_srl_epi64(block, half);
      right[v] = _mm256_and_si256(block, mask);
    }
    for (int r = 0; r < rounds; ++r) {
      for (size_t v = 0; v < kVectors; ++v) {
        __m256i word = philox_word(right[v], _mm256_set1_epi64x(r), key0, key1);
        __m256i mixed = _mm256_xor_si256(left[v], _mm256_and_si256(word, mask));
        left[v] = right[v];
        right[v] = mixed;
      }
    }
    for (size_t v = 0; v < kVectors; ++v)
      _mm256_storeu_si256(to + v, _mm256_or_si256(_mm256_sll_epi64(left[v], half), right[v]));
  }
}

}  // namespace stoker::pipeline
