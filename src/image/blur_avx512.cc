// SPDX-License-Identifier: Apache-2.0
// The blur with AVX-512. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/blur_kernels.h"
#include "image/blur_loops.h"

namespace stoker::image {
namespace {

inline __mmask16 lanes_before(ptrdiff_t count) { return count >= 16 ? 0xffff : __mmask16((1U << count) - 1); }

struct Floats {
  using Type = __m512;
  static constexpr int kLanes = 16;
  static Type load(const float* at) { return _mm512_loadu_ps(at); }
  static void store(float* to, Type value) { _mm512_storeu_ps(to, value); }
  static void store_first(float* to, ptrdiff_t count, Type value) {
    _mm512_mask_storeu_ps(to, lanes_before(count), value);
  }
  static Type all(float value) { return _mm512_set1_ps(value); }
  static Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static Type mul(Type a, Type b) { return _mm512_mul_ps(a, b); }
  static Type mul_add(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }
};
constexpr int kLanes = Floats::kLanes;

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

const BlurKernels kAvx512Blur = {across<Floats>, down<Floats>, to_floats, to_bytes};

}  // namespace stoker::image
