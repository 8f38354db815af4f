// SPDX-License-Identifier: Apache-2.0
// Gaussian blur as torchvision's, with reflected edges; separable, so that sums differ from its
// two-dimensional convolution in the last bits: within 1e-6 relative for floats, 1 for bytes. In place; one
// pass over the picture, with as many rows between the two passes as the kernel is high. Pure functions on
// views.
#pragma once

#include <vector>

#include "base/result.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

inline constexpr int kMaxBlurRadius = 127;

// A symmetric kernel from its centre outwards: at[0], then what both samples at distance 1 weigh, …
using HalfKernel = std::vector<double>;
HalfKernel gaussian(int side, double sigma);  // of `side` samples (odd)
// One blur that does what two do, edges included: a reflected picture stays one under a symmetric kernel.
// Equal but for rounding, of which one blur has less.
HalfKernel convolved(const HalfKernel& a, const HalfKernel& b);

// In float32, without the tails that weigh less than 2e-9 in all.
struct BlurWeights {
  int radius = 0;
  float at[kMaxBlurRadius + 1] = {1};
};
// The radius must be at most kMaxBlurRadius once cut.
BlurWeights cut(const HalfKernel& kernel);
int cut_radius(const HalfKernel& kernel);

struct GaussianKernel {
  BlurWeights down;    // along columns
  BlurWeights across;  // along rows
};

// Each side of the picture must be larger than the radius along it (kInvalid otherwise). Fails else only for
// want of memory. Floats are one plane, rows without gaps.
Status gaussian_blur(const MutableImageView& picture, const GaussianKernel& kernel, Workspace& workspace);
Status gaussian_blur(float* plane, Size size, const GaussianKernel& kernel, Workspace& workspace);

}  // namespace stoker::image
