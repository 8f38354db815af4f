// SPDX-License-Identifier: Apache-2.0
// The blur with AVX2 and FMA. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/blur_kernels.h"

namespace stoker::image {
namespace {

constexpr int kLanes = 8;

inline void store_first(float* to, ptrdiff_t count, __m256 value) {
  const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)), numbers);
  _mm256_maskstore_ps(to, mask, value);
}

void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;  // so that chains of additions overlap
  for (ptrdiff_t i = 0; i < count; i += kVectors * kLanes) {
    const float* at = in + i;
    __m256 sums[kVectors];
    for (int v = 0; v < kVectors; ++v)
      sums[v] = _mm256_mul_ps(_mm256_set1_ps(weights[0]), _mm256_loadu_ps(at + v * kLanes));
    for (int t = 1; t <= radius; ++t) {
      const __m256 weight = _mm256_set1_ps(weights[t]);
      for (int v = 0; v < kVectors; ++v) {
        __m256 both = _mm256_add_ps(_mm256_loadu_ps(at + v * kLanes - t * step),
                                    _mm256_loadu_ps(at + v * kLanes + t * step));
        sums[v] = _mm256_fmadd_ps(weight, both, sums[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(out + i + v * kLanes, sums[v]);
  }
}

// kVectors of both rows. What one of them needs at distance t the other needed at t - 1: it is kept.
template <int kVectors>
inline void two_rows(const float* const* rows, ptrdiff_t i, const float* weights, int radius,
                     __m256 (&sums)[2][kVectors]) {
  __m256 above[kVectors], below[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    above[v] = _mm256_loadu_ps(rows[radius] + i + v * kLanes);
    below[v] = _mm256_loadu_ps(rows[radius + 1] + i + v * kLanes);
    sums[0][v] = _mm256_mul_ps(_mm256_set1_ps(weights[0]), above[v]);
    sums[1][v] = _mm256_mul_ps(_mm256_set1_ps(weights[0]), below[v]);
  }
  for (int t = 1; t <= radius; ++t) {
    const __m256 weight = _mm256_set1_ps(weights[t]);
    const float* higher = rows[radius - t] + i;
    const float* lower = rows[radius + 1 + t] + i;
    for (int v = 0; v < kVectors; ++v) {
      __m256 next_above = _mm256_loadu_ps(higher + v * kLanes);
      __m256 next_below = _mm256_loadu_ps(lower + v * kLanes);
      sums[0][v] = _mm256_fmadd_ps(weight, _mm256_add_ps(next_above, below[v]), sums[0][v]);
      sums[1][v] = _mm256_fmadd_ps(weight, _mm256_add_ps(above[v], next_below), sums[1][v]);
      above[v] = next_above;
      below[v] = next_below;
    }
  }
}

void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* const* out) {
  constexpr int kVectors = 2;
  ptrdiff_t i = 0;
  for (; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
    __m256 sums[2][kVectors];
    two_rows<kVectors>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k)
      for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(out[k] + i + v * kLanes, sums[k][v]);
  }
  for (; i < count; i += kLanes) {
    __m256 sums[2][1];
    two_rows<1>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k) store_first(out[k] + i, count - i, sums[k][0]);
  }
}

void to_floats(const uint8_t* in, ptrdiff_t count, float* out) {
  ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
  }
  for (; i < count; ++i) out[i] = in[i];
}

void to_bytes(const float* in, ptrdiff_t count, uint8_t* out) {
  ptrdiff_t i = 0;
  for (; i < count; i += kLanes) {
    __m256i whole = _mm256_cvtps_epi32(_mm256_loadu_ps(in + i));
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    __m128i bytes = _mm_packus_epi16(words, words);
    if (count - i >= kLanes) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), bytes);
    } else {
      alignas(16) uint8_t last[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(last), bytes);
      for (ptrdiff_t k = i; k < count; ++k) out[k] = last[k - i];
    }
  }
}

}  // namespace

const BlurKernels kAvx2Blur = {across, down, to_floats, to_bytes};

}  // namespace stoker::image
