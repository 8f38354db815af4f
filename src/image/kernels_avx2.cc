// SPDX-License-Identifier: Apache-2.0
// AVX2. A weight of 23 bits is two numbers of 11 and 12 bits, so that sums of 16-bit products are exact in 32
// bits. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/kernels.h"

namespace stoker::image {
namespace {

constexpr int kLowBits = 11;
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

struct Halves {
  __m256i low, high;
};

inline void add_products(Halves* sum, __m256i pairs, const Halves& weights) {
  sum->low = _mm256_add_epi32(sum->low, _mm256_madd_epi16(pairs, weights.low));
  sum->high = _mm256_add_epi32(sum->high, _mm256_madd_epi16(pairs, weights.high));
}

inline __m256i rounded(const Halves& sum) {
  __m256i value = _mm256_add_epi32(_mm256_slli_epi32(sum.high, kLowBits), sum.low);
  return _mm256_srai_epi32(_mm256_add_epi32(value, _mm256_set1_epi32(kHalf)), kWeightBits);
}

// Two weights' low (or high) parts as neighbouring 16-bit numbers.
inline int32_t pair_low(const int32_t* weights) {
  const int32_t mask = (1 << kLowBits) - 1;
  return (weights[0] & mask) | (weights[1] & mask) << 16;
}
inline int32_t pair_high(const int32_t* weights) {
  return ((weights[0] >> kLowBits) & 0xffff) | (weights[1] >> kLowBits) * (1 << 16);
}

int fours_of(int count) { return (count + 3) / 4; }

// Table: for each pixel and four taps 64 bytes: taps 0, 1 in the lower lanes, taps 2, 3 in the upper, low
// then high.
size_t table_bytes(const AxisView& axis) {
  size_t fours = 0;
  for (int x = 0; x < axis.size; ++x) fours += size_t(fours_of(axis.count[x]));
  return 64 * fours;
}

void make_table(const AxisView& axis, uint8_t* table) {
  for (int x = 0; x < axis.size; ++x) {
    const int32_t* weights = axis.weights + ptrdiff_t{x} * axis.taps_padded;
    for (int four = 0; four < fours_of(axis.count[x]); ++four, weights += 4, table += 64) {
      __m256i low =
          _mm256_setr_m128i(_mm_set1_epi32(pair_low(weights)), _mm_set1_epi32(pair_low(weights + 2)));
      __m256i high =
          _mm256_setr_m128i(_mm_set1_epi32(pair_high(weights)), _mm_set1_epi32(pair_high(weights + 2)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(table), low);
      _mm256_store_si256(reinterpret_cast<__m256i*>(table + 32), high);
    }
  }
}

template <int kRows, bool kClamp>
void narrow(const AxisView& axis, const uint8_t* table, const uint8_t* const* in, uint8_t* const* out) {
  const __m256i gather = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                                          6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m128i low_bytes = _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  for (int x = 0; x < axis.size; ++x) {
    Halves sums[kRows];
    for (int r = 0; r < kRows; ++r) sums[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    ptrdiff_t at = 3 * ptrdiff_t{axis.first[x]};
    for (int left = axis.count[x]; left > 0; left -= 4, at += 12, table += 64) {
      Halves weights = {_mm256_load_si256(reinterpret_cast<const __m256i*>(table)),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(table + 32))};
      for (int r = 0; r < kRows; ++r) {
        __m128i source = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in[r] + at));
        __m256i pairs = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(source), gather);
        add_products(&sums[r], pairs, weights);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      __m256i value = _mm256_add_epi32(_mm256_slli_epi32(sums[r].high, kLowBits), sums[r].low);
      __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(value), _mm256_extracti128_si256(value, 1));
      sum = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(kHalf)), kWeightBits);
      if constexpr (kClamp) sum = _mm_min_epi32(_mm_max_epi32(sum, _mm_setzero_si128()), _mm_set1_epi32(255));
      _mm_storeu_si32(out[r] + 3 * x, _mm_shuffle_epi8(sum, low_bytes));
    }
  }
}

template <bool kClamp>
void narrow_all(const AxisView& axis, const uint8_t* table, const uint8_t* const* in, uint8_t* const* out,
                int rows) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) narrow<4, kClamp>(axis, table, in + r, out + r);
  for (; r < rows; ++r) narrow<1, kClamp>(axis, table, in + r, out + r);
}

void horizontal(const AxisView& axis, const uint8_t* table, const uint8_t* const* in, uint8_t* const* out,
                int rows) {
  if (axis.negative) {
    narrow_all<true>(axis, table, in, out, rows);
  } else {
    narrow_all<false>(axis, table, in, out, rows);
  }
}

void vertical(const uint8_t* const* in, const int32_t* weights, int count, size_t bytes, uint8_t* out) {
  const __m256i zero = _mm256_setzero_si256();
  for (size_t x = 0; x < bytes; x += 32) {
    Halves sums[4];
    for (Halves& sum : sums) sum = {zero, zero};
    for (int t = 0; t < count; t += 2) {
      Halves pair = {_mm256_set1_epi32(pair_low(weights + t)), _mm256_set1_epi32(pair_high(weights + t))};
      __m256i r0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[t] + x));
      __m256i r1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[t + 1] + x));
      __m256i low = _mm256_unpacklo_epi8(r0, r1);
      __m256i high = _mm256_unpackhi_epi8(r0, r1);
      add_products(&sums[0], _mm256_unpacklo_epi8(low, zero), pair);
      add_products(&sums[1], _mm256_unpackhi_epi8(low, zero), pair);
      add_products(&sums[2], _mm256_unpacklo_epi8(high, zero), pair);
      add_products(&sums[3], _mm256_unpackhi_epi8(high, zero), pair);
    }
    __m256i first = _mm256_packs_epi32(rounded(sums[0]), rounded(sums[1]));
    __m256i second = _mm256_packs_epi32(rounded(sums[2]), rounded(sums[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), _mm256_packus_epi16(first, second));
  }
}

// Eight pixels (24 bytes, of which 28 are read) as floats of one channel at a time.
void to_floats(const uint8_t* in, int width, bool mirror, const FloatMap& map, float* const* out) {
  const __m256i spread = _mm256_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5);  // dwords: pixels 0-3 below, 4-7 above
  const __m256i reverse = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256 scale = _mm256_set1_ps(map.scale);
  int x = 0;
  for (; x + 11 <= width; x += 8) {
    __m256i pixels = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 3 * x));
    pixels = _mm256_permutevar8x32_epi32(pixels, spread);
    for (int c = 0; c < 3; ++c) {
      char b0 = char(c), b1 = char(3 + c), b2 = char(6 + c), b3 = char(9 + c);
      const __m256i pick =
          _mm256_setr_epi8(b0, -1, -1, -1, b1, -1, -1, -1, b2, -1, -1, -1, b3, -1, -1, -1,  //
                           b0, -1, -1, -1, b1, -1, -1, -1, b2, -1, -1, -1, b3, -1, -1, -1);
      __m256i whole = _mm256_shuffle_epi8(pixels, pick);
      if (mirror) whole = _mm256_permutevar8x32_epi32(whole, reverse);
      __m256 value = _mm256_cvtepi32_ps(whole);
      value = map.divide ? _mm256_div_ps(value, scale) : _mm256_mul_ps(value, scale);
      if (map.normalize) {
        value = _mm256_sub_ps(value, _mm256_set1_ps(map.mean[c]));
        value = _mm256_div_ps(value, _mm256_set1_ps(map.std[c]));
      }
      _mm256_storeu_ps(out[c] + (mirror ? width - x - 8 : x), value);
    }
  }
  for (; x < width; ++x) {
    for (int c = 0; c < 3; ++c) out[c][mirror ? width - 1 - x : x] = map.entries[c][in[3 * x + c]];
  }
}

}  // namespace

const Kernels kAvx2Kernels = {Isa::kAvx2, table_bytes, make_table,       horizontal,
                              vertical,   to_floats,   to_planes_scalar, mirror_scalar};

}  // namespace stoker::image
