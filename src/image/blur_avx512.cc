// SPDX-License-Identifier: Apache-2.0
// The blur with AVX-512. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/blur_kernels.h"

namespace stoker::image {
namespace {

constexpr int kLanes = 16;

inline __mmask16 lanes_before(ptrdiff_t count) {
  return count >= kLanes ? 0xffff : __mmask16((1U << count) - 1);
}

// kVectors sums at once, so that their chains of additions overlap. sample(t, i): the i-th vector at distance
// t.
template <int kVectors, typename Sample>
inline void weigh(const float* weights, int radius, Sample sample, __m512* sums) {
  for (int v = 0; v < kVectors; ++v) sums[v] = _mm512_mul_ps(_mm512_set1_ps(weights[0]), sample(0, v));
  for (int t = 1; t <= radius; ++t) {
    const __m512 weight = _mm512_set1_ps(weights[t]);
    for (int v = 0; v < kVectors; ++v)
      sums[v] = _mm512_fmadd_ps(weight, _mm512_add_ps(sample(-t, v), sample(t, v)), sums[v]);
  }
}

void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;
  for (ptrdiff_t i = 0; i < count; i += kVectors * kLanes) {
    __m512 sums[kVectors];
    weigh<kVectors>(
        weights, radius, [&](int t, int v) { return _mm512_loadu_ps(in + i + v * kLanes + t * step); }, sums);
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + i + v * kLanes, sums[v]);
  }
}

void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;
  ptrdiff_t i = 0;
  for (; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
    __m512 sums[kVectors];
    weigh<kVectors>(
        weights, radius, [&](int t, int v) { return _mm512_loadu_ps(rows[radius + t] + i + v * kLanes); },
        sums);
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + i + v * kLanes, sums[v]);
  }
  for (; i < count; i += kLanes) {
    __m512 sum;
    weigh<1>(
        weights, radius, [&](int t, int) { return _mm512_loadu_ps(rows[radius + t] + i); }, &sum);
    _mm512_mask_storeu_ps(out + i, lanes_before(count - i), sum);
  }
}

void to_floats(const uint8_t* in, ptrdiff_t count, float* out) {
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    __m128i bytes = _mm_maskz_loadu_epi8(lanes_before(count - i), in + i);
    _mm512_storeu_ps(out + i, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)));
  }
}

void to_bytes(const float* in, ptrdiff_t count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    __m512i whole = _mm512_max_epi32(_mm512_cvtps_epi32(_mm512_loadu_ps(in + i)), _mm512_setzero_si512());
    _mm_mask_storeu_epi8(out + i, lanes_before(count - i), _mm512_cvtusepi32_epi8(whole));
  }
}

}  // namespace

const BlurKernels kAvx512Blur = {across, down, to_floats, to_bytes};

}  // namespace stoker::image
