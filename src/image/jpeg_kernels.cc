// SPDX-License-Identifier: Apache-2.0
// The scalar kernels, and the choice between them.
#include "image/jpeg_kernels.h"

#include <algorithm>

#include "image/scan_loop.h"

namespace stoker::image {
namespace {

// Sums of 32 bits that wrap, as vector instructions do.
uint32_t product(int a, int b) { return uint32_t(a * b); }
int16_t wrapped(int value) { return int16_t(value); }
int16_t saturated(int value) { return int16_t(std::clamp(value, -32768, 32767)); }

// Eight values with a distance of `step`, in place. The even and the odd half as in the paper of Loeffler,
// Ligtenberg and Moschytz, scaled by 2^13 as libjpeg has it; products that share a factor are joined.
void transform_line(int16_t* at, int step, int shift) {
  auto in = [&](int i) { return int(at[i * step]); };
  uint32_t even0 = product(wrapped(in(0) + in(4)), 1 << 13);
  uint32_t even1 = product(wrapped(in(0) - in(4)), 1 << 13);
  uint32_t turn0 = product(in(2), 10703) + product(in(6), 4433);
  uint32_t turn1 = product(in(2), 4433) + product(in(6), -10704);
  const uint32_t even[4] = {even0 + turn0, even1 + turn1, even1 - turn1, even0 - turn0};

  int sum73 = wrapped(in(7) + in(3));
  int sum51 = wrapped(in(5) + in(1));
  uint32_t z3 = product(sum73, -6436) + product(sum51, 9633);
  uint32_t z4 = product(sum73, 9633) + product(sum51, 6437);
  const uint32_t odd[4] = {
      product(in(7), -7373) + product(in(1), 4926) + z4,
      product(in(5), -20995) + product(in(3), 4177) + z3,
      product(in(5), -4176) + product(in(3), -20995) + z4,
      product(in(7), -4927) + product(in(1), -7373) + z3,
  };
  for (int i = 0; i < 4; ++i) {
    uint32_t half = 1U << (shift - 1);
    at[i * step] = saturated(int32_t(even[i] + odd[i] + half) >> shift);
    at[(7 - i) * step] = saturated(int32_t(even[i] - odd[i] + half) >> shift);
  }
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
    for (int x = 0; x < 8; ++x) out[y * stride + x] = uint8_t(std::clamp(work[8 * y + x] + 128, 0, 255));
  }
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
  out[0] = uint8_t(std::clamp(luma + ((91881 * red + kHalf) >> 16), 0, 255));
  out[1] = uint8_t(std::clamp(luma + ((-22554 * blue - 46802 * red + kHalf) >> 16), 0, 255));
  out[2] = uint8_t(std::clamp(luma + ((116130 * blue + kHalf) >> 16), 0, 255));
}

void to_rgb(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) write_pixel(luma[x], blue[x], red[x], out + 3 * x);
}

// Three parts of the nearer sample and one of the farther, in both directions.
int smooth(const uint8_t* const* rows, int at, int beside, int bias) {
  auto column = [&](int x) { return 3 * rows[0][x] + rows[1][x]; };
  return (3 * column(at) + column(beside) + bias) >> 4;
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

const JpegKernels kScalarJpegKernels = {decode_unit, skip_units, transform, to_rgb, to_rgb_smooth};

const JpegKernels& jpeg_kernels_of(Isa isa) {
  return isa == Isa::kScalar ? kScalarJpegKernels : kAvx2JpegKernels;
}

}  // namespace stoker::image
