// SPDX-License-Identifier: Apache-2.0
// AVX-512 with byte permutes (VBMI) and byte dot products (VNNI). A weight of 23 bits is three signed digits
// to the base 256, so that sums of u8 x s8 products are exact. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/kernels.h"

namespace stoker::image {
namespace {

constexpr int kGroup = 5;  // output pixels in a vector: 15 of 16 lanes of 4 taps
constexpr int kNarrowSpan =
    17;  // source pixels from a group's first tap to its last pixel's: fits one 64-byte load
constexpr int kWindow = 20;  // taps that a wide filter takes at once

const int32_t kHalf = 1 << (kWeightBits - 1);

struct Digits {
  __m512i low, middle, high;
};

// Sixteen weights, of which each four become the bytes of a lane.
inline __m128i bytes_of(__m512i weights) { return _mm512_cvtepi32_epi8(weights); }

inline __m512i next_digit(__m512i weights) {
  return _mm512_srai_epi32(_mm512_add_epi32(weights, _mm512_set1_epi32(128)), 8);
}

inline __m512i weighted(const Digits& sum) {
  __m512i value = _mm512_add_epi32(_mm512_slli_epi32(sum.high, 8), sum.middle);
  value = _mm512_add_epi32(_mm512_slli_epi32(value, 8), sum.low);
  return value;
}

// Negative weights may take a sum below zero.
inline __m128i clamped_bytes(__m512i sum) {
  __m512i value = _mm512_max_epi32(_mm512_srai_epi32(sum, kWeightBits), _mm512_setzero_si512());
  return _mm512_cvtusepi32_epi8(value);
}

inline void add_products(Digits* sum, __m512i pixels, const Digits& weights) {
  sum->low = _mm512_dpbusd_epi32(sum->low, pixels, weights.low);
  sum->middle = _mm512_dpbusd_epi32(sum->middle, pixels, weights.middle);
  sum->high = _mm512_dpbusd_epi32(sum->high, pixels, weights.high);
}

inline Digits rounding() {
  return {_mm512_set1_epi32(kHalf), _mm512_setzero_si512(), _mm512_setzero_si512()};
}

inline Digits load_digits(const uint8_t* at) {
  return {_mm512_load_si512(at), _mm512_load_si512(at + 64), _mm512_load_si512(at + 128)};
}

int at_most(int a, int b) { return a < b ? a : b; }

bool is_narrow(const AxisView& axis) {
  for (int x = 0; x < axis.size; x += kGroup) {
    int last = at_most(x + kGroup, axis.size) - 1;
    if (axis.first[last] - axis.first[x] > kNarrowSpan) return false;
  }
  return true;
}

int widest(const AxisView& axis, int begin, int end) {
  int taps = 0;
  for (int x = begin; x < end; ++x) taps = axis.count[x] > taps ? axis.count[x] : taps;
  return taps;
}

// --- Narrow filters: five pixels at once. ---
// Table: for each group 64 bytes of permutation, then the digits of each four taps; the first 64 bytes say
// which form it is.

struct Group {
  int base;   // bytes from the row's start to the group's first tap
  int fours;  // of taps
};

inline Group group_of(const AxisView& axis, int x) {
  int end = at_most(x + kGroup, axis.size);
  return {3 * axis.first[x], (widest(axis, x, end) + 3) / 4};
}

void make_narrow(const AxisView& axis, uint8_t* table) {
  // Lane 3p + c holds taps 4t … 4t+3 of channel c of pixel p: bytes c, 3+c, 6+c, 9+c from its first tap.
  const __m512i taps = _mm512_setr_epi32(0x09060300, 0x0a070401, 0x0b080502, 0x09060300, 0x0a070401,
                                         0x0b080502, 0x09060300, 0x0a070401, 0x0b080502, 0x09060300,
                                         0x0a070401, 0x0b080502, 0x09060300, 0x0a070401, 0x0b080502, 0);
  const __m512i pixel_of_lane = _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 15);
  for (int x = 0; x < axis.size; x += kGroup) {
    Group group = group_of(axis, x);
    int pixels = at_most(kGroup, axis.size - x);
    alignas(64) int32_t offsets[16] = {};
    for (int p = 0; p < pixels; ++p) offsets[p] = 3 * (axis.first[x + p] - axis.first[x]) * 0x01010101;
    __m512i offset = _mm512_permutexvar_epi32(pixel_of_lane, _mm512_load_si512(offsets));
    _mm512_store_si512(table, _mm512_add_epi8(taps, offset));
    alignas(64) int32_t head[16] = {group.base, group.fours};
    _mm512_store_si512(table + 64, _mm512_load_si512(head));
    table += 128;
    for (int four = 0; four < group.fours; ++four) {
      alignas(64) int32_t weights[32] = {};
      for (int p = 0; p < pixels; ++p) {
        const int32_t* from = axis.weights + ptrdiff_t{x + p} * axis.taps_padded + 4 * four;
        _mm_store_si128(reinterpret_cast<__m128i*>(weights + 4 * p),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      }
      __m512i first = _mm512_load_si512(weights);
      __m512i second = _mm512_load_si512(weights + 16);
      for (int digit = 0; digit < 3; ++digit) {
        __m512i packed = _mm512_inserti32x4(_mm512_castsi128_si512(bytes_of(first)), bytes_of(second), 1);
        // Lane 15 takes dword 15 … which is not set: clear it by the mask.
        _mm512_store_si512(table, _mm512_maskz_permutexvar_epi32(0x7fff, pixel_of_lane, packed));
        table += 64;
        first = next_digit(first);
        second = next_digit(second);
      }
    }
  }
}

// The sums stay in registers: 24 of 32 for eight rows.
template <int kRows>
void narrow_rows(const AxisView& axis, const uint8_t* table, const uint8_t* const* in, uint8_t* const* out) {
  for (int x = 0; x < axis.size; x += kGroup) {
    const __m512i gather = _mm512_load_si512(table);
    const int32_t* head = reinterpret_cast<const int32_t*>(table + 64);
    const int base = head[0];
    const int fours = head[1];
    Digits weights = load_digits(table + 128);
    table += 128 + 192;
    __m512i low[kRows], middle[kRows], high[kRows];
    for (int r = 0; r < kRows; ++r) {
      __m512i pixels = _mm512_permutexvar_epi8(gather, _mm512_loadu_si512(in[r] + base));
      low[r] = _mm512_dpbusd_epi32(_mm512_set1_epi32(kHalf), pixels, weights.low);
      middle[r] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pixels, weights.middle);
      high[r] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pixels, weights.high);
    }
    for (int four = 1; four < fours; ++four, table += 192) {
      weights = load_digits(table);
      for (int r = 0; r < kRows; ++r) {
        __m512i pixels = _mm512_permutexvar_epi8(gather, _mm512_loadu_si512(in[r] + base + 12 * four));
        low[r] = _mm512_dpbusd_epi32(low[r], pixels, weights.low);
        middle[r] = _mm512_dpbusd_epi32(middle[r], pixels, weights.middle);
        high[r] = _mm512_dpbusd_epi32(high[r], pixels, weights.high);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      __m512i sum = weighted({low[r], middle[r], high[r]});
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out[r] + 3 * x), clamped_bytes(sum));
    }
  }
}

// --- Wide filters: one pixel at a time, twenty taps at once. ---

int windows_of(int count) { return (count + kWindow - 1) / kWindow; }

void make_wide(const AxisView& axis, uint8_t* table) {
  const __m512i four_of_lane = _mm512_setr_epi32(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 15);
  for (int x = 0; x < axis.size; ++x) {
    const int32_t* from = axis.weights + ptrdiff_t{x} * axis.taps_padded;
    for (int window = 0; window < windows_of(axis.count[x]); ++window) {
      alignas(64) int32_t weights[32] = {};
      int left = axis.count[x] - window * kWindow;
      for (int t = 0; t < at_most(left, kWindow); ++t) weights[t] = from[window * kWindow + t];
      __m512i first = _mm512_load_si512(weights);
      __m512i second = _mm512_load_si512(weights + 16);
      for (int digit = 0; digit < 3; ++digit) {
        __m512i packed = _mm512_inserti32x4(_mm512_castsi128_si512(bytes_of(first)), bytes_of(second), 1);
        _mm512_store_si512(table, _mm512_maskz_permutexvar_epi32(0x7fff, four_of_lane, packed));
        table += 64;
        first = next_digit(first);
        second = next_digit(second);
      }
    }
  }
}

void wide_row(const AxisView& axis, const uint8_t* table, const uint8_t* in, uint8_t* out) {
  // Lane 3k + c holds taps 4k … 4k+3 of channel c.
  const __m512i first_four = _mm512_setr_epi32(0x09060300, 0x0a070401, 0x0b080502, 0x09060300, 0x0a070401,
                                               0x0b080502, 0x09060300, 0x0a070401, 0x0b080502, 0x09060300,
                                               0x0a070401, 0x0b080502, 0x09060300, 0x0a070401, 0x0b080502, 0);
  const __m512i steps =
      _mm512_setr_epi32(0, 0, 0, 0x0c0c0c0c, 0x0c0c0c0c, 0x0c0c0c0c, 0x18181818, 0x18181818, 0x18181818,
                        0x24242424, 0x24242424, 0x24242424, 0x30303030, 0x30303030, 0x30303030, 0);
  const __m512i gather = _mm512_add_epi8(first_four, steps);
  for (int x = 0; x < axis.size; ++x, out += 3) {
    Digits sum = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    const uint8_t* source = in + 3 * axis.first[x];
    for (int left = axis.count[x]; left > 0; left -= kWindow, source += 3 * kWindow, table += 192) {
      add_products(&sum, _mm512_permutexvar_epi8(gather, _mm512_loadu_si512(source)), load_digits(table));
    }
    __m512i all = weighted(sum);
    __m512i two = _mm512_add_epi32(all, _mm512_alignr_epi32(all, all, 3));
    __m512i four = _mm512_add_epi32(two, _mm512_alignr_epi32(two, two, 6));
    __m512i five = _mm512_add_epi32(four, _mm512_alignr_epi32(all, all, 12));
    _mm_storeu_si32(out, clamped_bytes(_mm512_add_epi32(five, _mm512_set1_epi32(kHalf))));
  }
}

size_t table_bytes(const AxisView& axis) {
  size_t bytes = 0;
  if (is_narrow(axis)) {
    for (int x = 0; x < axis.size; x += kGroup) bytes += 128 + 192 * size_t(group_of(axis, x).fours);
  } else {
    for (int x = 0; x < axis.size; ++x) bytes += 192 * size_t(windows_of(axis.count[x]));
  }
  return bytes + 64;
}

void make_table(const AxisView& axis, uint8_t* table) {
  bool narrow = is_narrow(axis);
  table[0] = narrow;
  if (narrow) {
    make_narrow(axis, table + 64);
  } else {
    make_wide(axis, table + 64);
  }
}

void horizontal(const AxisView& axis, const uint8_t* table, const uint8_t* const* in, uint8_t* const* out,
                int rows) {
  bool narrow = table[0] != 0;
  table += 64;
  if (!narrow) {
    for (int r = 0; r < rows; ++r) wide_row(axis, table, in[r], out[r]);
    return;
  }
  int r = 0;
  for (; r + 8 <= rows; r += 8) narrow_rows<8>(axis, table, in + r, out + r);
  for (; r + 4 <= rows; r += 4) narrow_rows<4>(axis, table, in + r, out + r);
  for (; r < rows; ++r) narrow_rows<1>(axis, table, in + r, out + r);
}

// Four weights' digits as the bytes of a lane each.
struct FourDigits {
  int32_t low, middle, high;
};

inline FourDigits digits_of(const int32_t* weights) {
  const __m128i carry = _mm_set1_epi32(128);
  __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights));
  FourDigits digits;
  digits.low = _mm_cvtsi128_si32(_mm_cvtepi32_epi8(four));
  four = _mm_srai_epi32(_mm_add_epi32(four, carry), 8);
  digits.middle = _mm_cvtsi128_si32(_mm_cvtepi32_epi8(four));
  four = _mm_srai_epi32(_mm_add_epi32(four, carry), 8);
  digits.high = _mm_cvtsi128_si32(_mm_cvtepi32_epi8(four));
  return digits;
}

void vertical(const uint8_t* const* in, const int32_t* weights, int count, size_t bytes, uint8_t* out) {
  constexpr int kPrepared = 16;  // fours of taps; the rest, if ever, is worked out again for each column
  FourDigits prepared[kPrepared];
  for (int t = 0; t < count && t < 4 * kPrepared; t += 4) prepared[t / 4] = digits_of(weights + t);
  for (size_t x = 0; x < bytes; x += 64) {
    Digits sums[4] = {rounding(), rounding(), rounding(), rounding()};
    for (int t = 0; t < count; t += 4) {
      FourDigits four = t < 4 * kPrepared ? prepared[t / 4] : digits_of(weights + t);
      Digits digits = {_mm512_set1_epi32(four.low), _mm512_set1_epi32(four.middle),
                       _mm512_set1_epi32(four.high)};
      __m512i r0 = _mm512_loadu_si512(in[t] + x);
      __m512i r1 = _mm512_loadu_si512(in[t + 1] + x);
      __m512i r2 = _mm512_loadu_si512(in[t + 2] + x);
      __m512i r3 = _mm512_loadu_si512(in[t + 3] + x);
      __m512i low01 = _mm512_unpacklo_epi8(r0, r1);
      __m512i high01 = _mm512_unpackhi_epi8(r0, r1);
      __m512i low23 = _mm512_unpacklo_epi8(r2, r3);
      __m512i high23 = _mm512_unpackhi_epi8(r2, r3);
      add_products(&sums[0], _mm512_unpacklo_epi16(low01, low23), digits);
      add_products(&sums[1], _mm512_unpackhi_epi16(low01, low23), digits);
      add_products(&sums[2], _mm512_unpacklo_epi16(high01, high23), digits);
      add_products(&sums[3], _mm512_unpackhi_epi16(high01, high23), digits);
    }
    __m512i values[4];
    for (int i = 0; i < 4; ++i) values[i] = _mm512_srai_epi32(weighted(sums[i]), kWeightBits);
    __m512i first = _mm512_packs_epi32(values[0], values[1]);
    __m512i second = _mm512_packs_epi32(values[2], values[3]);
    _mm512_storeu_si512(out + x, _mm512_packus_epi16(first, second));
  }
}

// Sixteen pixels as 16 bytes of red, of green, of blue.
struct Planes {
  __m128i channel[3];
};

inline __mmask64 first_bits(int count) { return count >= 64 ? ~0ULL : (1ULL << count) - 1; }

struct ByteIndex {
  alignas(64) uint8_t at[64];
};

// Plane c's pixel i is at byte 3i + c.
constexpr ByteIndex plane_bytes(bool backwards) {
  ByteIndex index = {};
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 16; ++i) index.at[16 * c + i] = uint8_t(backwards ? c - 3 * i : 3 * i + c);
  }
  return index;
}
// Byte 3i + c of the mirror image.
constexpr ByteIndex mirror_bytes() {
  ByteIndex index = {};
  for (int i = 0; i < 21; ++i) {
    for (int c = 0; c < 3; ++c) index.at[3 * i + c] = uint8_t(c - 3 * i);
  }
  return index;
}
constexpr ByteIndex kForwards = plane_bytes(false);
constexpr ByteIndex kBackwards = plane_bytes(true);
constexpr ByteIndex kMirror = mirror_bytes();

// A backwards index starts from the last of `count` pixels.
inline __m512i from_last(const ByteIndex& index, int count) {
  return _mm512_add_epi8(_mm512_load_si512(index.at), _mm512_set1_epi8(char(3 * (count - 1))));
}
inline __m512i plane_index(int count, bool mirror) {
  return mirror ? from_last(kBackwards, count) : _mm512_load_si512(kForwards.at);
}

inline Planes planes_of(const uint8_t* in, int count, __m512i index) {
  __m512i pixels = _mm512_maskz_loadu_epi8(first_bits(3 * count), in);
  pixels = _mm512_permutexvar_epi8(index, pixels);
  return {{_mm512_castsi512_si128(pixels), _mm512_extracti32x4_epi32(pixels, 1),
           _mm512_extracti32x4_epi32(pixels, 2)}};
}

// Exactly 48 bytes.
inline __m512i load_sixteen(const uint8_t* in) {
  __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in));
  __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 32));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_castsi128_si256(high), 1);
}

inline __m512 converted(__m128i bytes, const FloatMap& map, int channel) {
  const __m512 scale = _mm512_set1_ps(map.scale);
  __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  value = map.divide ? _mm512_div_ps(value, scale) : _mm512_mul_ps(value, scale);
  if (!map.normalize) return value;
  value = _mm512_sub_ps(value, _mm512_set1_ps(map.mean[channel]));
  const __m512 std = _mm512_set1_ps(map.std[channel]);
  if (!map.by_reciprocal) return _mm512_div_ps(value, std);
  const __m512 reciprocal = _mm512_set1_ps(map.reciprocal[channel]);
  __m512 quotient = _mm512_mul_ps(value, reciprocal);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(quotient, std, value), reciprocal, quotient);
}

void to_floats(const uint8_t* in, int width, bool mirror, const FloatMap& map, float* const* out) {
  const __m512i whole = plane_index(16, mirror);
  int x = 0;
  for (; x + 16 <= width; x += 16) {
    __m512i pixels = load_sixteen(in + 3 * (mirror ? width - x - 16 : x));
    pixels = _mm512_permutexvar_epi8(whole, pixels);
    _mm512_storeu_ps(out[0] + x, converted(_mm512_castsi512_si128(pixels), map, 0));
    _mm512_storeu_ps(out[1] + x, converted(_mm512_extracti32x4_epi32(pixels, 1), map, 1));
    _mm512_storeu_ps(out[2] + x, converted(_mm512_extracti32x4_epi32(pixels, 2), map, 2));
  }
  if (x == width) return;
  int count = width - x;
  Planes planes = planes_of(in + 3 * (mirror ? 0 : x), count, plane_index(count, mirror));
  for (int c = 0; c < 3; ++c) {
    _mm512_mask_storeu_ps(out[c] + x, __mmask16(first_bits(count)), converted(planes.channel[c], map, c));
  }
}

void to_planes(const uint8_t* in, int width, bool mirror, uint8_t* const* out) {
  __m512i index = plane_index(at_most(16, width), mirror);
  for (int x = 0; x < width; x += 16) {
    int count = at_most(16, width - x);
    if (count < 16 && x > 0) index = plane_index(count, mirror);
    Planes planes = planes_of(in + 3 * (mirror ? width - x - count : x), count, index);
    for (int c = 0; c < 3; ++c)
      _mm_mask_storeu_epi8(out[c] + x, __mmask16(first_bits(count)), planes.channel[c]);
  }
}

void mirror(const uint8_t* in, int width, uint8_t* out) {
  constexpr int kPixels = 21;
  for (int x = 0; x < width; x += kPixels) {
    int count = at_most(kPixels, width - x);
    __mmask64 mask = first_bits(3 * count);
    __m512i pixels = _mm512_maskz_loadu_epi8(mask, in + 3 * (width - x - count));
    _mm512_mask_storeu_epi8(out + 3 * x, mask, _mm512_permutexvar_epi8(from_last(kMirror, count), pixels));
  }
}

}  // namespace

const Kernels kAvx512Kernels = {Isa::kAvx512, table_bytes, make_table, horizontal,
                                vertical,     to_floats,   to_planes,  mirror};

}  // namespace stoker::image
