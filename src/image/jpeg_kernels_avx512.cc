// SPDX-License-Identifier: Apache-2.0
// AVX-512: four blocks at once; with VBMI2 a block's values go to their places by one instruction. Only plain
// functions here, see AxisView.
#include <immintrin.h>

#include <cstring>

#include "image/colour_loops.h"
#include "image/jpeg_kernels.h"

namespace stoker::image {
namespace {

struct FourBlocks {
  using Type = __m512i;
  static Type add16(Type a, Type b) { return _mm512_add_epi16(a, b); }
  static Type sub16(Type a, Type b) { return _mm512_sub_epi16(a, b); }
  static Type add32(Type a, Type b) { return _mm512_add_epi32(a, b); }
  static Type sub32(Type a, Type b) { return _mm512_sub_epi32(a, b); }
  template <int kShift>
  static Type sra(Type a) {
    return _mm512_srai_epi32(a, kShift);
  }
  static Type madd(Type a, Type b) { return _mm512_madd_epi16(a, b); }
  static Type pack32(Type a, Type b) { return _mm512_packs_epi32(a, b); }
  static Type pack16(Type a, Type b) { return _mm512_packs_epi16(a, b); }
  template <int kBits>
  static Type low(Type a, Type b) {
    if constexpr (kBits == 8) return _mm512_unpacklo_epi8(a, b);
    if constexpr (kBits == 16) return _mm512_unpacklo_epi16(a, b);
    if constexpr (kBits == 32) return _mm512_unpacklo_epi32(a, b);
    return _mm512_unpacklo_epi64(a, b);
  }
  template <int kBits>
  static Type high(Type a, Type b) {
    if constexpr (kBits == 8) return _mm512_unpackhi_epi8(a, b);
    if constexpr (kBits == 16) return _mm512_unpackhi_epi16(a, b);
    if constexpr (kBits == 32) return _mm512_unpackhi_epi32(a, b);
    return _mm512_unpackhi_epi64(a, b);
  }
  static Type all32(int value) { return _mm512_set1_epi32(value); }
  static Type all16(int value) { return _mm512_set1_epi16(short(value)); }
  static Type mulhi(Type a, Type b) { return _mm512_mulhi_epi16(a, b); }
  template <int kShift>
  static Type sra16(Type a) {
    return _mm512_srai_epi16(a, kShift);
  }
  static Type zero() { return _mm512_setzero_si512(); }
};

// Four rows of each block to four vectors of one row of each.
inline void gather_rows(const int16_t* blocks, __m512i* rows) {
  __m512i block[4];
  for (int b = 0; b < 4; ++b) block[b] = _mm512_loadu_si512(blocks + b * kBlockStride);
  __m512i upper01 = _mm512_shuffle_i32x4(block[0], block[1], 0x44);
  __m512i upper23 = _mm512_shuffle_i32x4(block[2], block[3], 0x44);
  __m512i lower01 = _mm512_shuffle_i32x4(block[0], block[1], 0xEE);
  __m512i lower23 = _mm512_shuffle_i32x4(block[2], block[3], 0xEE);
  rows[0] = _mm512_shuffle_i32x4(upper01, upper23, 0x88);
  rows[1] = _mm512_shuffle_i32x4(upper01, upper23, 0xDD);
  rows[2] = _mm512_shuffle_i32x4(lower01, lower23, 0x88);
  rows[3] = _mm512_shuffle_i32x4(lower01, lower23, 0xDD);
}

inline void store_two_rows(__m128i rows, uint8_t* out, ptrdiff_t stride) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), rows);
  _mm_storeh_pd(reinterpret_cast<double*>(out + stride), _mm_castsi128_pd(rows));
}

}  // namespace

void transform_four_avx512(const int16_t* blocks, const uint8_t* last, const int16_t* steps,
                           uint8_t* const* out, ptrdiff_t stride) {
  __m512i rows[8];
  gather_rows(blocks, rows);
  gather_rows(blocks + 32, rows + 4);
  for (int y = 0; y < 8; ++y) {
    __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(steps + 16 * y));
    __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i*>(steps + 128 + 16 * y));
    rows[y] = _mm512_mullo_epi16(rows[y], _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1));
  }
  // Where libjpeg-turbo's shortcut for blocks with one row may wrap; hardly ever in a picture.
  if ((_mm512_cmpgt_epi16_mask(rows[0], _mm512_set1_epi16(8191)) |
       _mm512_cmplt_epi16_mask(rows[0], _mm512_set1_epi16(-8192))) != 0) [[unlikely]] {
    kScalarJpegKernels.transform(blocks, last, steps, out, stride);
    kScalarJpegKernels.transform(blocks + 2 * kBlockStride, last + 2, steps + 128, out + 2, stride);
    return;
  }
  __m512i packed[4];
  transform_rows<FourBlocks>(rows, packed);
  for (int i = 0; i < 4; ++i) {
    __m512i bytes = _mm512_add_epi8(packed[i], _mm512_set1_epi8(-128));
    store_two_rows(_mm512_castsi512_si128(bytes), out[0] + 2 * i * stride, stride);
    store_two_rows(_mm512_maskz_extracti32x4_epi32(15, bytes, 1), out[1] + 2 * i * stride, stride);
    store_two_rows(_mm512_maskz_extracti32x4_epi32(15, bytes, 2), out[2] + 2 * i * stride, stride);
    store_two_rows(_mm512_maskz_extracti32x4_epi32(15, bytes, 3), out[3] + 2 * i * stride, stride);
  }
}

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

// --- From samples to pixels, 64 at a time: the even ones and the odd ones, 16 bits each. ---

namespace {

struct Halves {
  __m512i even, odd;
};

inline Halves halves(const uint8_t* at) {
  __m512i bytes = _mm512_loadu_si512(at);
  return {_mm512_and_si512(bytes, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16(bytes, 8)};
}

// Where byte i of a third of 64 pixels' 192 bytes comes from: of red, or 64 on of green; and of blue, if it
// is.
struct Places {
  alignas(64) uint8_t red_green[3][64];
  alignas(64) uint8_t blue[3][64];
  uint64_t is_blue[3];
};
constexpr Places interleaving() {
  Places places{};
  for (int third = 0; third < 3; ++third) {
    for (int i = 0; i < 64; ++i) {
      int byte = 64 * third + i;
      int pixel = byte / 3;
      int place = pixel / 16 * 16 + pixel % 2 * 8 + pixel % 16 / 2;  // eight even ones, then eight odd ones
      places.red_green[third][i] = uint8_t(byte % 3 == 1 ? 64 + place : place);
      places.blue[third][i] = uint8_t(place);
      places.is_blue[third] |= uint64_t{byte % 3 == 2} << i;
    }
  }
  return places;
}
constexpr Places kInterleaving = interleaving();

inline void store_pixels(const RgbOf<FourBlocks>& even, const RgbOf<FourBlocks>& odd, uint8_t* out) {
  __m512i red = _mm512_packus_epi16(even.r, odd.r);
  __m512i green = _mm512_packus_epi16(even.g, odd.g);
  __m512i blue = _mm512_packus_epi16(even.b, odd.b);
  for (int t = 0; t < 3; ++t) {
    __m512i third = _mm512_permutex2var_epi8(red, _mm512_load_si512(kInterleaving.red_green[t]), green);
    third = _mm512_mask_permutexvar_epi8(third, kInterleaving.is_blue[t],
                                         _mm512_load_si512(kInterleaving.blue[t]), blue);
    _mm512_storeu_si512(out + 64 * t, third);
  }
}

// As in jpeg_kernels_avx2.cc.
template <typename Each>
inline void for_groups(int width, uint8_t* out, Each each) {
  int x = 0;
  for (; x + 64 <= width; x += 64) each(x, out + 3 * x);
  if (x == width) return;
  uint8_t rest[192];
  each(x, rest);
  std::memcpy(out + 3 * x, rest, 3 * size_t(width - x));
}

// 32 samples: three parts of the nearer row and one of the other.
inline __m512i columns(const uint8_t* const* rows, int at) {
  auto load = [](const uint8_t* from) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  };
  __m512i near = load(rows[0] + at);
  return _mm512_add_epi16(_mm512_add_epi16(near, _mm512_slli_epi16(near, 1)), load(rows[1] + at));
}

inline Halves smoothed(const uint8_t* const* rows, int at, __m512i left_bias, __m512i right_bias) {
  __m512i here = columns(rows, at);
  __m512i three = _mm512_add_epi16(_mm512_slli_epi16(here, 1), here);
  __m512i left = _mm512_add_epi16(columns(rows, at - 1), left_bias);
  __m512i right = _mm512_add_epi16(columns(rows, at + 1), right_bias);
  return {_mm512_srli_epi16(_mm512_add_epi16(three, left), 4),
          _mm512_srli_epi16(_mm512_add_epi16(three, right), 4)};
}

}  // namespace

void to_rgb_avx512(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out) {
  for_groups(width, out, [&](int x, uint8_t* to) {
    Halves y = halves(luma + x);
    Halves b = halves(blue + x);
    Halves r = halves(red + x);
    store_pixels(pixels<FourBlocks>(y.even, b.even, r.even), pixels<FourBlocks>(y.odd, b.odd, r.odd), to);
  });
}

void to_rgb_smooth_avx512(const uint8_t* luma, const ChromaRows& chroma, int width, uint8_t* out) {
  const __m512i left_bias = _mm512_set1_epi16(short(chroma.bias[0]));
  const __m512i right_bias = _mm512_set1_epi16(short(chroma.bias[1]));
  for_groups(width, out, [&](int x, uint8_t* to) {
    Halves y = halves(luma + x);
    Halves b = smoothed(chroma.blue, x / 2, left_bias, right_bias);
    Halves r = smoothed(chroma.red, x / 2, left_bias, right_bias);
    store_pixels(pixels<FourBlocks>(y.even, b.even, r.even), pixels<FourBlocks>(y.odd, b.odd, r.odd), to);
  });
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
