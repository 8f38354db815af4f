// SPDX-License-Identifier: Apache-2.0
// The inner loops of our own JPEG decoder, once per instruction set. All give the same bits as the scalar
// ones. Pure functions; the caller owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "image/kernels.h"
#include "image/scan.h"

namespace stoker::image {

// Chroma of half the width: the row itself, and the one on the other side of the pixels' row. With chroma of
// full height both are the same.
struct ChromaRows {
  const uint8_t* blue[2];
  const uint8_t* red[2];
  int bias[2];  // what the left and the right pixel round with: kBiasHalf or kBiasFull
};
inline constexpr int kBiasHalf[2] = {8, 7};  // chroma of half the height
inline constexpr int kBiasFull[2] = {4, 8};

struct JpegKernels {
  // The next unit's blocks, kBlockStride apart and in rows, and how far each one's last coefficient is in
  // zigzag order. False if the bits are wrong or end too early; nothing is read past the scan's padding.
  bool (*decode_unit)(const ScanTables& tables, const ScanBits& bits, ScanState* state, int16_t* blocks,
                      uint8_t* last);
  // The same for units that nobody wants.
  bool (*skip_units)(const ScanTables& tables, const ScanBits& bits, ScanState* state, int units);

  // A unit's blocks from what coefficients.h keeps of them: masks (u64) and DC values (i16) of each, and
  // values from *values on, which moves behind them. Up to kCoefficientSlack bytes behind the values are
  // read. As decode_unit(), but for `last`, which is 0 if the block has but its DC value, and else anything.
  void (*expand_unit)(const uint8_t* masks, const uint8_t* dcs, const uint8_t** values, int blocks,
                      int16_t* out, uint8_t* last);
  // The other way: the mask of a block that has more than its DC value, and its values at *values, which
  // moves behind them. Up to 128 bytes are written.
  uint64_t (*pack_block)(const int16_t* block, uint8_t** values);
  // How many bytes the values of so many blocks have.
  size_t (*value_bytes)(const uint8_t* masks, size_t blocks);

  // Two blocks, kBlockStride apart, with the last coefficients' places, to samples: eight rows of eight bytes
  // to each of out[], `stride` apart. `steps` in rows, each row's eight of the first block and then of the
  // second. Islow's arithmetic, and where it overflows, libjpeg-turbo's vector code's.
  void (*transform)(const int16_t* blocks, const uint8_t* last, const int16_t* steps, uint8_t* const* out,
                    ptrdiff_t stride);
  // The same of four blocks, steps of two pairs one behind the other; nullptr where two are as good.
  void (*transform_four)(const int16_t* blocks, const uint8_t* last, const int16_t* steps,
                         uint8_t* const* out, ptrdiff_t stride);

  // A row of `width` RGB pixels from luma and chroma. These may read 64 bytes past what they need, and write
  // nothing past the row.
  void (*to_rgb)(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out);
  // The same from chroma of half the width, which is smoothed: the first pixel is the left one of the first
  // sample's two, and there is a sample on either side of those that are needed.
  void (*to_rgb_smooth)(const uint8_t* luma, const ChromaRows& chroma, int width, uint8_t* out);
};

// Those for kernels_of(isa), which this processor must have.
const JpegKernels& jpeg_kernels_of(Isa isa);

extern const JpegKernels kScalarJpegKernels;
extern const JpegKernels kAvx2JpegKernels;
// In the place of AVX2's, with VBMI2.
void expand_unit_avx512(const uint8_t* masks, const uint8_t* dcs, const uint8_t** values, int blocks,
                        int16_t* out, uint8_t* last);
uint64_t pack_block_avx512(const int16_t* block, uint8_t** values);
void to_rgb_avx512(const uint8_t* luma, const uint8_t* blue, const uint8_t* red, int width, uint8_t* out);
void to_rgb_smooth_avx512(const uint8_t* luma, const ChromaRows& chroma, int width, uint8_t* out);
void transform_four_avx512(const int16_t* blocks, const uint8_t* last, const int16_t* steps,
                           uint8_t* const* out, ptrdiff_t stride);

}  // namespace stoker::image
