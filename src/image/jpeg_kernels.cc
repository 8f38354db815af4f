// SPDX-License-Identifier: Apache-2.0
// The scalar kernels, and the choice between them.
#include "image/jpeg_kernels.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "image/scan_loop.h"

namespace stoker::image {
namespace {

// Nothing here takes a local's address: the sanitizer's build would then be too slow for the tests.
int clamped(int value, int low, int high) { return value < low ? low : value > high ? high : value; }
uint8_t byte(int value) { return uint8_t(clamped(value, 0, 255)); }

// Sums of 32 bits that wrap, as vector instructions do.
uint32_t product(int a, int b) { return uint32_t(a * b); }
int16_t wrapped(int value) { return int16_t(value); }
int16_t narrowed(uint32_t sum, int shift) {
  return int16_t(clamped(int32_t(sum + (1U << (shift - 1))) >> shift, -32768, 32767));
}

// Eight values with a distance of `step`, in place. The even and the odd half as in the paper of Loeffler,
// Ligtenberg and Moschytz, scaled by 2^13 as libjpeg has it; products that share a factor are joined.
void transform_line(int16_t* at, int step, int shift) {
  int in0 = at[0], in1 = at[step], in2 = at[2 * step], in3 = at[3 * step];
  int in4 = at[4 * step], in5 = at[5 * step], in6 = at[6 * step], in7 = at[7 * step];
  uint32_t sum = product(wrapped(in0 + in4), 1 << 13);
  uint32_t difference = product(wrapped(in0 - in4), 1 << 13);
  uint32_t turn0 = product(in2, 10703) + product(in6, 4433);
  uint32_t turn1 = product(in2, 4433) + product(in6, -10704);
  int sum73 = wrapped(in7 + in3);
  int sum51 = wrapped(in5 + in1);
  uint32_t z3 = product(sum73, -6436) + product(sum51, 9633);
  uint32_t z4 = product(sum73, 9633) + product(sum51, 6437);

  uint32_t even = sum + turn0;
  uint32_t odd = product(in7, -7373) + product(in1, 4926) + z4;
  at[0] = narrowed(even + odd, shift);
  at[7 * step] = narrowed(even - odd, shift);
  even = difference + turn1;
  odd = product(in5, -20995) + product(in3, 4177) + z3;
  at[step] = narrowed(even + odd, shift);
  at[6 * step] = narrowed(even - odd, shift);
  even = difference - turn1;
  odd = product(in5, -4176) + product(in3, -20995) + z4;
  at[2 * step] = narrowed(even + odd, shift);
  at[5 * step] = narrowed(even - odd, shift);
  even = sum - turn0;
  odd = product(in7, -4927) + product(in1, -7373) + z3;
  at[3 * step] = narrowed(even + odd, shift);
  at[4 * step] = narrowed(even - odd, shift);
}

void transform_block(const int16_t* block, const int16_t* steps, uint8_t* out, ptrdiff_t stride) {
  int16_t work[64];
  for (int i = 0; i < 64; ++i) work[i] = wrapped(block[i] * steps[i % 8 + i / 8 * 16]);
  // libjpeg-turbo's shortcut, which wraps where the sums would saturate.
  if (std::all_of(block + 8, block + 64, [](int16_t value) { return value == 0; })) {
    for (int x = 0; x < 8; ++x) work[x] = wrapped(work[x] * 4);
    for (int i = 8; i < 64; ++i) work[i] = work[i - 8];
  } else {
    for (int x = 0; x < 8; ++x) transform_line(work + x, 8, 11);
  }
  for (int y = 0; y < 8; ++y) {
    transform_line(work + 8 * y, 1, 18);
    for (int x = 0; x < 8; ++x) out[y * stride + x] = byte(work[8 * y + x] + 128);
  }
}

void expand_unit(const uint8_t* masks, const uint8_t* dcs, const uint8_t** values, int blocks, int16_t* out,
                 uint8_t* last) {
  for (int b = 0; b < blocks; ++b, out += kBlockStride) {
    auto mask = load_le<uint64_t>(masks + 8 * b);
    bool wide = (mask & 1) != 0;
    last[b] = mask > 1 ? 63 : 0;
    out[0] = load_le<int16_t>(dcs + 2 * b);
    for (int i = 1; i < 64; ++i) {
      out[i] = 0;
      if ((mask >> i & 1) == 0) continue;
      out[i] = wide ? load_le<int16_t>(*values) : int16_t(int8_t(**values));
      *values += wide ? 2 : 1;
    }
  }
}

uint64_t pack_block(const int16_t* block, uint8_t** values) {
  uint64_t mask = 0;
  bool wide = false;
  for (int i = 1; i < 64; ++i) {
    mask |= uint64_t{block[i] != 0} << i;
    wide |= block[i] != int8_t(block[i]);
  }
  for (int i = 1; i < 64; ++i) {
    if (block[i] == 0) continue;
    store_le(*values, block[i]);  // its lower byte first
    *values += wide ? 2 : 1;
  }
  return mask | uint64_t{wide};
}

size_t value_bytes(const uint8_t* masks, size_t blocks) {
  size_t sum = 0;
  for (size_t b = 0; b < blocks; ++b) {
    auto mask = load_le<uint64_t>(masks + 8 * b);
    sum += size_t(std::popcount(mask >> 1)) << (mask & 1);
  }
  return sum;
}

void transform(const int16_t* blocks, const uint8_t*, const int16_t* steps, uint8_t* const* out,
               ptrdiff_t stride) {
  transform_block(blocks, steps, out[0], stride);
  transform_block(blocks + kBlockStride, steps + 8, out[1], stride);
}

// Weights of 16 bits behind the point: 1.402, 0.34414, 0.71414, 1.772.
void write_pixel(int luma, int blue, int red, uint8_t* out) {
  constexpr int kHalf = 1 << 15;
  blue -= 128;
  red -= 128;
  out[0] = byte(luma + ((91881 * red + kHalf) >> 16));
  out[1] = byte(luma + ((-22554 * blue - 46802 * red + kHalf) >> 16));
  out[2] = byte(luma + ((116130 * blue + kHalf) >> 16));
}

void to_rgb(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) write_pixel(luma[x], blue[x], red[x], out + 3 * x);
}

// Three parts of the nearer sample and one of the farther, in both directions.
int smooth(const uint8_t* const* rows, int at, int beside, int bias) {
  int here = 3 * rows[0][at] + rows[1][at];
  int there = 3 * rows[0][beside] + rows[1][beside];
  return (3 * here + there + bias) >> 4;
}

void to_rgb_smooth(const uint8_t* luma, const ChromaRows& chroma, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    int side = x % 2;
    int at = x / 2;
    int beside = side == 0 ? at - 1 : at + 1;
    write_pixel(luma[x], smooth(chroma.blue, at, beside, chroma.bias[side]),
                smooth(chroma.red, at, beside, chroma.bias[side]), out + 3 * x);
  }
}

}  // namespace

const JpegKernels kScalarJpegKernels = {decode_unit, skip_units, expand_unit, pack_block,   value_bytes,
                                        transform,   nullptr,    to_rgb,      to_rgb_smooth};

const JpegKernels& jpeg_kernels_of(Isa isa) {
  static const JpegKernels avx512 = [] {
    JpegKernels kernels = kAvx2JpegKernels;
    kernels.expand_unit = expand_unit_avx512;
    kernels.pack_block = pack_block_avx512;
    kernels.transform_four = transform_four_avx512;
    kernels.to_rgb = to_rgb_avx512;
    kernels.to_rgb_smooth = to_rgb_smooth_avx512;
    return kernels;
  }();
  return isa == Isa::kScalar ? kScalarJpegKernels : isa == Isa::kAvx2 ? kAvx2JpegKernels : avx512;
}

}  // namespace stoker::image
