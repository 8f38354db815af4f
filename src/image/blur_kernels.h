// SPDX-License-Identifier: Apache-2.0
// The inner loops of the blur, once per instruction set, all with the same bits: w[0]*x[0], then for each
// distance i a fused multiply-add of w[i] and (x[-i] + x[i]). Callers give slack: rows may be read and
// written up to kBlurSlack floats past `count`.
#pragma once

#include <cstddef>

#include "image/kernels.h"

namespace stoker::image {

inline constexpr ptrdiff_t kBlurSlack = 64;

struct BlurKernels {
  // out[i] of in[i - radius * step … i + radius * step].
  void (*across)(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius,
                 float* out);
  // Two rows at once, so that what both need is loaded once: out[0][i] of rows[0 … 2 * radius][i], out[1][i]
  // of rows[1 … 2 * radius + 1][i]. Writes exactly `count`.
  void (*down)(const float* const* rows, ptrdiff_t count, const float* weights, int radius,
               float* const* out);
  void (*to_floats)(const uint8_t* in, ptrdiff_t count, float* out);  // reads exactly `count`
  // Rounded half to even and clamped. Writes exactly `count`.
  void (*to_bytes)(const float* in, ptrdiff_t count, uint8_t* out);
};

const BlurKernels& blur_kernels(Isa isa);

extern const BlurKernels kScalarBlur;
extern const BlurKernels kAvx2Blur;
extern const BlurKernels kAvx512Blur;

}  // namespace stoker::image
