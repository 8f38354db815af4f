// SPDX-License-Identifier: Apache-2.0
// The blur with AVX2 and FMA. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/blur_kernels.h"

namespace stoker::image {
namespace {

constexpr int kLanes = 8;

inline __m256i lanes_before(ptrdiff_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// kVectors sums at once, so that their chains of additions overlap. sample(t, i): the i-th vector at distance
// t.
template <int kVectors, typename Sample>
inline void weigh(const float* weights, int radius, Sample sample, __m256* sums) {
  for (int v = 0; v < kVectors; ++v) sums[v] = _mm256_mul_ps(_mm256_set1_ps(weights[0]), sample(0, v));
  for (int t = 1; t <= radius; ++t) {
    const __m256 weight = _mm256_set1_ps(weights[t]);
    for (int v = 0; v < kVectors; ++v)
      sums[v] = _mm256_fmadd_ps(weight, _mm256_add_ps(sample(-t, v), sample(t, v)), sums[v]);
  }
}

void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;
  for (ptrdiff_t i = 0; i < count; i += kVectors * kLanes) {
    __m256 sums[kVectors];
    weigh<kVectors>(
        weights, radius, [&](int t, int v) { return _mm256_loadu_ps(in + i + v * kLanes + t * step); }, sums);
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(out + i + v * kLanes, sums[v]);
  }
}

void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;
  ptrdiff_t i = 0;
  for (; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
    __m256 sums[kVectors];
    weigh<kVectors>(
        weights, radius, [&](int t, int v) { return _mm256_loadu_ps(rows[radius + t] + i + v * kLanes); },
        sums);
    for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(out + i + v * kLanes, sums[v]);
  }
  for (; i < count; i += kLanes) {
    __m256 sum;
    weigh<1>(
        weights, radius, [&](int t, int) { return _mm256_loadu_ps(rows[radius + t] + i); }, &sum);
    _mm256_maskstore_ps(out + i, lanes_before(count - i), sum);
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
