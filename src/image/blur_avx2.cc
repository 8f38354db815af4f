// SPDX-License-Identifier: Apache-2.0
// The blur with AVX2 and FMA. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/blur_kernels.h"
#include "image/blur_loops.h"

namespace stoker::image {
namespace {

struct Floats {
  using Type = __m256;
  static constexpr int kLanes = 8;
  static Type load(const float* at) { return _mm256_loadu_ps(at); }
  static void store(float* to, Type value) { _mm256_storeu_ps(to, value); }
  static void store_first(float* to, ptrdiff_t count, Type value) {
    const __m256i numbers = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_maskstore_ps(to, _mm256_cmpgt_epi32(_mm256_set1_epi32(int(count)), numbers), value);
  }
  static Type all(float value) { return _mm256_set1_ps(value); }
  static Type add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static Type mul(Type a, Type b) { return _mm256_mul_ps(a, b); }
  static Type mul_add(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
};
constexpr int kLanes = Floats::kLanes;

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

const BlurKernels kAvx2Blur = {across<Floats>, down<Floats>, to_floats, to_bytes};

}  // namespace stoker::image
