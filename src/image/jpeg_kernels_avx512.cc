// SPDX-License-Identifier: Apache-2.0
// AVX-512 with VBMI2: a block's values go to their places by one instruction. Only plain functions here, see
// AxisView.
#include <immintrin.h>

#include <cstring>

#include "image/jpeg_kernels.h"

namespace stoker::image {

void expand_unit_avx512(const uint8_t* masks, const uint8_t* dcs, const uint8_t** values, int blocks,
                        int16_t* out, uint8_t* last) {
  const uint8_t* at = *values;
  for (int b = 0; b < blocks; ++b, out += kBlockStride) {
    uint64_t mask;
    int16_t dc;
    std::memcpy(&mask, masks + 8 * b, sizeof mask);
    std::memcpy(&dc, dcs + 2 * b, sizeof dc);
    last[b] = mask > 1 ? 63 : 0;
    const bool wide = (mask & 1) != 0;
    mask &= ~uint64_t{1};
    __m512i upper, lower;
    if (!wide) [[likely]] {
      __m512i bytes = _mm512_maskz_expand_epi8(mask, _mm512_loadu_si512(at));
      upper = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(bytes));
      lower = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(bytes, 1));
      at += _mm_popcnt_u64(mask);
    } else {
      upper = _mm512_maskz_expand_epi16(__mmask32(mask), _mm512_loadu_si512(at));
      at += 2 * _mm_popcnt_u32(uint32_t(mask));
      lower = _mm512_maskz_expand_epi16(__mmask32(mask >> 32), _mm512_loadu_si512(at));
      at += 2 * _mm_popcnt_u32(uint32_t(mask >> 32));
    }
    upper = _mm512_mask_set1_epi16(upper, 1, dc);
    _mm512_storeu_si512(out, upper);
    _mm512_storeu_si512(out + 32, lower);
  }
  *values = at;
}

uint64_t pack_block_avx512(const int16_t* block, uint8_t** values) {
  __m512i upper = _mm512_mask_set1_epi16(_mm512_loadu_si512(block), 1, 0);  // without the DC value
  __m512i lower = _mm512_loadu_si512(block + 32);
  uint32_t upper_mask = _mm512_test_epi16_mask(upper, upper);
  uint32_t lower_mask = _mm512_test_epi16_mask(lower, lower);
  uint64_t mask = upper_mask | uint64_t{lower_mask} << 32;
  uint8_t* to = *values;
  __m256i upper_bytes = _mm512_maskz_cvtsepi16_epi8(~0U, upper);
  __m256i lower_bytes = _mm512_maskz_cvtsepi16_epi8(~0U, lower);
  bool wide = (_mm512_cmpneq_epi16_mask(_mm512_cvtepi8_epi16(upper_bytes), upper) |
               _mm512_cmpneq_epi16_mask(_mm512_cvtepi8_epi16(lower_bytes), lower)) != 0;
  if (!wide) [[likely]] {
    __m512i bytes = _mm512_inserti64x4(_mm512_castsi256_si512(upper_bytes), lower_bytes, 1);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(mask, bytes));
    *values = to + _mm_popcnt_u64(mask);
    return mask;
  }
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi16(upper_mask, upper));
  to += 2 * _mm_popcnt_u32(upper_mask);
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi16(lower_mask, lower));
  *values = to + 2 * _mm_popcnt_u32(lower_mask);
  return mask | 1;
}

}  // namespace stoker::image
