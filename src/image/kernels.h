// SPDX-License-Identifier: Apache-2.0
// The inner loops, once per instruction set. All give the same bits as the scalar ones. Pure functions on
// rows of RGB bytes; the caller owns the memory and provides slack: input rows may be read, output rows
// written, up to kSlack bytes past their end.
#pragma once

#include <cstddef>
#include <cstdint>

#include "image/axis.h"
#include "image/normalize.h"

namespace stoker::image {

inline constexpr size_t kSlack = 128;
inline constexpr int kRowBatch = 8;  // rows that horizontal() takes at most

enum class Isa { kScalar, kAvx2, kAvx512 };

struct Kernels {
  Isa isa;
  // A form of the axis's weights that suits horizontal(): how many bytes, and how to make it (64-byte
  // aligned).
  size_t (*table_bytes)(const AxisView& axis);
  void (*make_table)(const AxisView& axis, uint8_t* table);
  // Resizes `rows` rows; each out row has axis.size pixels.
  void (*horizontal)(const AxisView& axis, const uint8_t* table, const uint8_t* const* in,
                     uint8_t* const* out, int rows);
  // One output row of `bytes` bytes from `count` input rows. in[] and weights[] go on to the next multiple of
  // 4, with weights of zero.
  void (*vertical)(const uint8_t* const* in, const int32_t* weights, int count, size_t bytes, uint8_t* out);

  // These three touch not one byte past their rows.
  // One row to three planes' rows of `width` entries.
  void (*to_floats)(const uint8_t* in, int width, bool mirror, const FloatMap& map, float* const* out);
  void (*to_planes)(const uint8_t* in, int width, bool mirror, uint8_t* const* out);
  // Right to left, not in place.
  void (*mirror)(const uint8_t* in, int width, uint8_t* out);
};

// The best that this processor has and STOKER_ISA (scalar, avx2, avx512) allows; chosen once.
const Kernels& kernels();
// nullptr if this processor lacks it.
const Kernels* kernels_of(Isa isa);

void to_planes_scalar(const uint8_t* in, int width, bool mirror, uint8_t* const* out);
void mirror_scalar(const uint8_t* in, int width, uint8_t* out);

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace stoker::image
