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

inline void store_first(float* to, ptrdiff_t count, __m512 value) {
  _mm512_mask_storeu_ps(to, lanes_before(count), value);
}

void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;  // so that chains of additions overlap
  for (ptrdiff_t i = 0; i < count; i += kVectors * kLanes) {
    const float* at = in + i;
    __m512 sums[kVectors];
    for (int v = 0; v < kVectors; ++v)
      sums[v] = _mm512_mul_ps(_mm512_set1_ps(weights[0]), _mm512_loadu_ps(at + v * kLanes));
    for (int t = 1; t <= radius; ++t) {
      const __m512 weight = _mm512_set1_ps(weights[t]);
      for (int v = 0; v < kVectors; ++v) {
        __m512 both = _mm512_add_ps(_mm512_loadu_ps(at + v * kLanes - t * step),
                                    _mm512_loadu_ps(at + v * kLanes + t * step));
        sums[v] = _mm512_fmadd_ps(weight, both, sums[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + i + v * kLanes, sums[v]);
  }
}

// kVectors of both rows. What one of them needs at distance t the other needed at t - 1: it is kept.
template <int kVectors>
inline void two_rows(const float* const* rows, ptrdiff_t i, const float* weights, int radius,
                     __m512 (&sums)[2][kVectors]) {
  __m512 above[kVectors], below[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    above[v] = _mm512_loadu_ps(rows[radius] + i + v * kLanes);
    below[v] = _mm512_loadu_ps(rows[radius + 1] + i + v * kLanes);
    sums[0][v] = _mm512_mul_ps(_mm512_set1_ps(weights[0]), above[v]);
    sums[1][v] = _mm512_mul_ps(_mm512_set1_ps(weights[0]), below[v]);
  }
  for (int t = 1; t <= radius; ++t) {
    const __m512 weight = _mm512_set1_ps(weights[t]);
    const float* higher = rows[radius - t] + i;
    const float* lower = rows[radius + 1 + t] + i;
    for (int v = 0; v < kVectors; ++v) {
      __m512 next_above = _mm512_loadu_ps(higher + v * kLanes);
      __m512 next_below = _mm512_loadu_ps(lower + v * kLanes);
      sums[0][v] = _mm512_fmadd_ps(weight, _mm512_add_ps(next_above, below[v]), sums[0][v]);
      sums[1][v] = _mm512_fmadd_ps(weight, _mm512_add_ps(above[v], next_below), sums[1][v]);
      above[v] = next_above;
      below[v] = next_below;
    }
  }
}

void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* const* out) {
  constexpr int kVectors = 2;
  ptrdiff_t i = 0;
  for (; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
    __m512 sums[2][kVectors];
    two_rows<kVectors>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k)
      for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out[k] + i + v * kLanes, sums[k][v]);
  }
  for (; i < count; i += kLanes) {
    __m512 sums[2][1];
    two_rows<1>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k) store_first(out[k] + i, count - i, sums[k][0]);
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
