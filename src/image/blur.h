// SPDX-License-Identifier: Apache-2.0
// Gaussian blur as torchvision's, with reflected edges; separable, so that sums differ from its
// two-dimensional convolution in the last bits: within 1e-6 relative for floats, 1 for bytes. In place; one
// pass over the picture, with as many rows between the two passes as the kernel is high. Pure functions on
// views.
#pragma once

#include "base/result.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

inline constexpr int kMaxBlurRadius = 63;

// Symmetric weights, from the centre outwards.
struct BlurWeights {
  int radius = 0;
  float at[kMaxBlurRadius + 1] = {1};
};
// Of a kernel of `side` samples (odd, at most 127).
BlurWeights gaussian_weights(int side, double sigma);

struct GaussianKernel {
  BlurWeights down;    // along columns
  BlurWeights across;  // along rows
};

// Each side of the picture must be larger than the radius along it (kInvalid otherwise). Fails else only for
// want of memory. Floats are one plane, rows without gaps.
Status gaussian_blur(const MutableImageView& picture, const GaussianKernel& kernel, Workspace& workspace);
Status gaussian_blur(float* plane, Size size, const GaussianKernel& kernel, Workspace& workspace);

}  // namespace stoker::image
