// SPDX-License-Identifier: Apache-2.0
// The matrices of rotations, affine maps and perspectives, by torchvision's and Pillow's formulas; with our
// own sine and cosine, so that they are the same on every machine (torchvision's to 1e-12). Pure.
#pragma once

#include <array>
#include <utility>

#include "image/view.h"

namespace stoker::pipeline {

using Matrix = std::array<double, 8>;  // a … h of image::Warp

struct AffineValues {
  double angle = 0;                       // degrees, clockwise
  std::array<double, 2> translate{0, 0};  // pixels
  double scale = 1;
  std::array<double, 2> shear{0, 0};  // degrees
};

// torchvision's affine() about `center`.
Matrix affine_matrix(const AffineValues& values, const std::array<double, 2>& center);

// Pillow's rotate(), counter-clockwise, about `center`; with `expand` the picture grows to hold all of it.
std::pair<Matrix, image::Size> rotation(double angle, bool expand, const std::array<double, 2>& center,
                                        image::Size picture);

// torchvision's perspective(): the map that takes `ends` back to the corners of the picture; rounded to
// float32, as there. Corners from the upper left clockwise, {x, y} each.
using Corners = std::array<std::array<int, 2>, 4>;
Matrix perspective_matrix(image::Size picture, const Corners& ends);

}  // namespace stoker::pipeline
