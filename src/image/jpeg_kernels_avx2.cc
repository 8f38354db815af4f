// SPDX-License-Identifier: Apache-2.0
// AVX2 and BMI2; used on processors with AVX-512, too. Only plain functions here, see AxisView.
#include <immintrin.h>

#include "image/colour_loops.h"
#include "image/jpeg_kernels.h"
#include "image/scan_loop.h"

namespace stoker::image {
namespace {

// --- From what is kept of coefficients to these. ---

// Of eight places in a row: which of the next values each takes.
struct Ranks {
  alignas(8) uint8_t at[256][8];
};
constexpr Ranks ranks() {
  Ranks ranks{};
  for (int mask = 0; mask < 256; ++mask) {
    uint8_t next = 0;
    for (int i = 0; i < 8; ++i) ranks.at[mask][i] = (mask >> i & 1) != 0 ? next++ : 0x80;
  }
  return ranks;
}
constexpr Ranks kRanks = ranks();

inline uint64_t mask_at(const uint8_t* at) {
  uint64_t mask;
  std::memcpy(&mask, at, sizeof mask);
  return mask;
}

inline __m128i load_half(const uint8_t* at) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)); }

inline const uint8_t* expand_row(const uint8_t* values, unsigned mask, int16_t* out) {
  __m128i row = _mm_shuffle_epi8(load_half(values), load_half(kRanks.at[mask]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_cvtepi8_epi16(row));
  return values + __builtin_popcount(mask);
}

inline const uint8_t* expand_wide_row(const uint8_t* values, unsigned mask, int16_t* out) {
  __m128i rank = load_half(kRanks.at[mask]);
  rank = _mm_unpacklo_epi8(rank, rank);
  __m128i byte = _mm_add_epi8(_mm_add_epi8(rank, rank), _mm_set1_epi16(0x100));
  byte = _mm_or_si128(byte, _mm_and_si128(rank, _mm_set1_epi8(-128)));
  __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(row, byte));
  return values + 2 * __builtin_popcount(mask);
}

void expand_unit(const uint8_t* masks, const uint8_t* dcs, const uint8_t** values, int blocks, int16_t* out,
                 uint8_t* last) {
  const uint8_t* at = *values;
  for (int b = 0; b < blocks; ++b, out += kBlockStride) {
    uint64_t mask = mask_at(masks + 8 * b);
    last[b] = mask > 1 ? 63 : 0;
    bool wide = (mask & 1) != 0;
    mask &= ~uint64_t{1};
    for (int y = 0; y < 8; ++y) {
      unsigned row = unsigned(mask >> 8 * y & 0xFF);
      at = wide ? expand_wide_row(at, row, out + 8 * y) : expand_row(at, row, out + 8 * y);
    }
    std::memcpy(out, dcs + 2 * b, sizeof(int16_t));
  }
  *values = at;
}

// The other way: of eight places, those that are taken, one behind the other.
constexpr Ranks places() {
  Ranks places{};
  for (int mask = 0; mask < 256; ++mask) {
    int next = 0;
    for (int i = 0; i < 8; ++i) {
      if ((mask >> i & 1) != 0) places.at[mask][next++] = uint8_t(i);
    }
  }
  return places;
}
constexpr Ranks kPlaces = places();

uint64_t pack_block(const int16_t* block, uint8_t** values) {
  uint64_t mask = 0;
  __m256i far = _mm256_setzero_si256();
  __m256i bytes[2];
  for (int half = 0; half < 2; ++half) {
    auto load = [&](int i) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32 * half + 16 * i));
    };
    __m256i words[2] = {load(0), load(1)};
    if (half == 0) words[0] = _mm256_insert_epi16(words[0], 0, 0);  // the DC value
    for (__m256i word : words) {
      far = _mm256_or_si256(far, _mm256_cmpgt_epi16(word, _mm256_set1_epi16(127)));
      far = _mm256_or_si256(far, _mm256_cmpgt_epi16(_mm256_set1_epi16(-128), word));
    }
    bytes[half] = _mm256_permute4x64_epi64(_mm256_packs_epi16(words[0], words[1]), 0xD8);
    __m256i none = _mm256_cmpeq_epi8(bytes[half], _mm256_setzero_si256());
    mask |= uint64_t{~uint32_t(_mm256_movemask_epi8(none))} << 32 * half;
  }
  uint8_t* to = *values;
  if (!_mm256_testz_si256(far, far)) [[unlikely]] {
    for (uint64_t left = mask; left != 0; left &= left - 1, to += 2) {
      std::memcpy(to, block + __builtin_ctzll(left), 2);
    }
    *values = to;
    return mask | 1;
  }
  alignas(32) uint8_t narrow[64];
  _mm256_store_si256(reinterpret_cast<__m256i*>(narrow), bytes[0]);
  _mm256_store_si256(reinterpret_cast<__m256i*>(narrow + 32), bytes[1]);
  for (int y = 0; y < 8; ++y) {
    unsigned row = unsigned(mask >> 8 * y & 0xFF);
    __m128i packed = _mm_shuffle_epi8(load_half(narrow + 8 * y), load_half(kPlaces.at[row]));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), packed);
    to += __builtin_popcount(row);
  }
  *values = to;
  return mask;
}

size_t value_bytes(const uint8_t* masks, size_t blocks) {
  size_t sum = 0;
  for (size_t b = 0; b < blocks; ++b) {
    uint64_t mask = mask_at(masks + 8 * b);
    sum += size_t(__builtin_popcountll(mask >> 1)) << (mask & 1);
  }
  return sum;
}

// --- From coefficients to samples: one block in each half of a register. ---

struct TwoBlocks {
  using Type = __m256i;
  static Type add16(Type a, Type b) { return _mm256_add_epi16(a, b); }
  static Type sub16(Type a, Type b) { return _mm256_sub_epi16(a, b); }
  static Type add32(Type a, Type b) { return _mm256_add_epi32(a, b); }
  static Type sub32(Type a, Type b) { return _mm256_sub_epi32(a, b); }
  template <int kShift>
  static Type sra(Type a) {
    return _mm256_srai_epi32(a, kShift);
  }
  static Type madd(Type a, Type b) { return _mm256_madd_epi16(a, b); }
  static Type pack32(Type a, Type b) { return _mm256_packs_epi32(a, b); }
  static Type pack16(Type a, Type b) { return _mm256_packs_epi16(a, b); }
  template <int kBits>
  static Type low(Type a, Type b) {
    if constexpr (kBits == 8) return _mm256_unpacklo_epi8(a, b);
    if constexpr (kBits == 16) return _mm256_unpacklo_epi16(a, b);
    if constexpr (kBits == 32) return _mm256_unpacklo_epi32(a, b);
    return _mm256_unpacklo_epi64(a, b);
  }
  template <int kBits>
  static Type high(Type a, Type b) {
    if constexpr (kBits == 8) return _mm256_unpackhi_epi8(a, b);
    if constexpr (kBits == 16) return _mm256_unpackhi_epi16(a, b);
    if constexpr (kBits == 32) return _mm256_unpackhi_epi32(a, b);
    return _mm256_unpackhi_epi64(a, b);
  }
  static Type all32(int value) { return _mm256_set1_epi32(value); }
  static Type all16(int value) { return _mm256_set1_epi16(short(value)); }
  static Type mulhi(Type a, Type b) { return _mm256_mulhi_epi16(a, b); }
  template <int kShift>
  static Type sra16(Type a) {
    return _mm256_srai_epi16(a, kShift);
  }
  static Type zero() { return _mm256_setzero_si256(); }
};

inline void store_two_rows(__m256i rows, int y, uint8_t* const* out, ptrdiff_t stride) {
  rows = _mm256_add_epi8(rows, _mm256_set1_epi8(-128));
  __m128i first = _mm256_castsi256_si128(rows);
  __m128i second = _mm256_extracti128_si256(rows, 1);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out[0] + y * stride), first);
  _mm_storeh_pd(reinterpret_cast<double*>(out[0] + (y + 1) * stride), _mm_castsi128_pd(first));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out[1] + y * stride), second);
  _mm_storeh_pd(reinterpret_cast<double*>(out[1] + (y + 1) * stride), _mm_castsi128_pd(second));
}

inline void fill(int16_t first, int16_t step, uint8_t* out, ptrdiff_t stride) {
  int value = (int16_t(int16_t(first * step) * 4) + 16) >> 5;
  value = value < -128 ? 0 : value > 127 ? 255 : value + 128;
  __m128i row = _mm_set1_epi8(char(value));
  for (int y = 0; y < 8; ++y) _mm_storel_epi64(reinterpret_cast<__m128i*>(out + y * stride), row);
}

void transform(const int16_t* blocks, const uint8_t* last, const int16_t* steps, uint8_t* const* out,
               ptrdiff_t stride) {
  if (last[0] == 0 && last[1] == 0) {
    fill(blocks[0], steps[0], out[0], stride);
    fill(blocks[kBlockStride], steps[8], out[1], stride);
    return;
  }
  __m256i rows[8];
  for (int y = 0; y < 8; ++y) {
    auto row = [&](const int16_t* block) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 8 * y));
    };
    __m256i step = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(steps + 16 * y));
    rows[y] = _mm256_mullo_epi16(_mm256_setr_m128i(row(blocks), row(blocks + kBlockStride)), step);
  }
  // Where libjpeg-turbo's shortcut for blocks with one row may wrap; hardly ever in a picture.
  __m256i far = _mm256_or_si256(_mm256_cmpgt_epi16(rows[0], _mm256_set1_epi16(8191)),
                                _mm256_cmpgt_epi16(_mm256_set1_epi16(-8192), rows[0]));
  if (!_mm256_testz_si256(far, far)) [[unlikely]] {
    kScalarJpegKernels.transform(blocks, last, steps, out, stride);
    return;
  }
  __m256i packed[4];
  transform_rows<TwoBlocks>(rows, packed);
  for (int i = 0; i < 4; ++i) store_two_rows(packed[i], 2 * i, out, stride);
}

// --- From samples to pixels, 32 at a time: the even ones and the odd ones, 16 bits each. ---

struct Halves {
  __m256i even, odd;
};

inline Halves halves(__m256i bytes) {
  return {_mm256_and_si256(bytes, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16(bytes, 8)};
}
inline __m256i load(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

using Rgb = RgbOf<TwoBlocks>;

// Where byte i of a third of sixteen pixels' 48 bytes comes from, if it is of `channel`: eight even pixels,
// then eight odd ones.
struct Places {
  alignas(32) int8_t at[3][3][32];
};
constexpr Places interleaving() {
  Places places{};
  for (int third = 0; third < 3; ++third) {
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < 32; ++i) {
        int byte = 16 * third + i % 16;
        int pixel = byte / 3;
        bool here = byte % 3 == channel;
        places.at[third][channel][i] = int8_t(here ? pixel / 2 + pixel % 2 * 8 : -1);
      }
    }
  }
  return places;
}
constexpr Places kInterleaving = interleaving();

inline void store_pixels(const Rgb& even, const Rgb& odd, uint8_t* out) {
  const __m256i channels[3] = {_mm256_packus_epi16(even.r, odd.r), _mm256_packus_epi16(even.g, odd.g),
                               _mm256_packus_epi16(even.b, odd.b)};
  __m256i thirds[3];
  for (int t = 0; t < 3; ++t) {
    __m256i parts[3];
    for (int c = 0; c < 3; ++c) {
      __m256i place = _mm256_load_si256(reinterpret_cast<const __m256i*>(kInterleaving.at[t][c]));
      parts[c] = _mm256_shuffle_epi8(channels[c], place);
    }
    thirds[t] = _mm256_or_si256(_mm256_or_si256(parts[0], parts[1]), parts[2]);
  }
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(thirds[0], thirds[1], 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(thirds[2], thirds[0], 0x30));
  _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(thirds[1], thirds[2], 0x31));
}

// Calls each(x, place for 32 pixels); the last ones' place is not in the row, which nothing is written past.
template <typename Each>
inline void for_groups(int width, uint8_t* out, Each each) {
  int x = 0;
  for (; x + 32 <= width; x += 32) each(x, out + 3 * x);
  if (x == width) return;
  uint8_t rest[96];
  each(x, rest);
  std::memcpy(out + 3 * x, rest, 3 * size_t(width - x));
}

void to_rgb(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out) {
  for_groups(width, out, [&](int x, uint8_t* to) {
    Halves y = halves(load(luma + x));
    Halves b = halves(load(blue + x));
    Halves r = halves(load(red + x));
    store_pixels(pixels<TwoBlocks>(y.even, b.even, r.even), pixels<TwoBlocks>(y.odd, b.odd, r.odd), to);
  });
}

// Sixteen samples: three parts of the nearer row and one of the other.
inline __m256i columns(const uint8_t* const* rows, int at) {
  __m128i near = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[0] + at));
  __m128i far = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[1] + at));
  __m256i both = _mm256_setr_m128i(_mm_unpacklo_epi8(near, far), _mm_unpackhi_epi8(near, far));
  return _mm256_maddubs_epi16(both, _mm256_set1_epi16(3 | 1 << 8));
}

inline Halves smoothed(const uint8_t* const* rows, int at, __m256i left_bias, __m256i right_bias) {
  __m256i here = columns(rows, at);
  __m256i three = _mm256_add_epi16(_mm256_add_epi16(here, here), here);
  __m256i left = _mm256_add_epi16(columns(rows, at - 1), left_bias);
  __m256i right = _mm256_add_epi16(columns(rows, at + 1), right_bias);
  return {_mm256_srli_epi16(_mm256_add_epi16(three, left), 4),
          _mm256_srli_epi16(_mm256_add_epi16(three, right), 4)};
}

void to_rgb_smooth(const uint8_t* luma, const ChromaRows& chroma, int width, uint8_t* out) {
  const __m256i left_bias = _mm256_set1_epi16(short(chroma.bias[0]));
  const __m256i right_bias = _mm256_set1_epi16(short(chroma.bias[1]));
  for_groups(width, out, [&](int x, uint8_t* to) {
    Halves y = halves(load(luma + x));
    Halves b = smoothed(chroma.blue, x / 2, left_bias, right_bias);
    Halves r = smoothed(chroma.red, x / 2, left_bias, right_bias);
    store_pixels(pixels<TwoBlocks>(y.even, b.even, r.even), pixels<TwoBlocks>(y.odd, b.odd, r.odd), to);
  });
}

}  // namespace

const JpegKernels kAvx2JpegKernels = {decode_unit, skip_units, expand_unit, pack_block,   value_bytes,
                                      transform,   nullptr,    to_rgb,      to_rgb_smooth};

}  // namespace stoker::image
