// SPDX-License-Identifier: Apache-2.0
// What lies around a picture: crops that reach outside, and so paddings, take their pixels from here. As
// torchvision's pad() of PIL pictures. Pure functions on views.
#pragma once

#include <array>
#include <cstdint>

#include "image/view.h"

namespace stoker::image {

struct Border {
  enum Kind {
    kConstant,   // `fill`
    kEdge,       // the nearest pixel
    kReflect,    // mirrored about the centre of the outermost pixel: it is not repeated
    kSymmetric,  // mirrored about the edge: the outermost pixel is repeated
  };
  Kind kind = kConstant;
  std::array<uint8_t, 3> fill{0, 0, 0};
  bool operator==(const Border&) const = default;
};

// The number in [0, side) of the sample that stands at `at` when a border of that kind goes on for ever; -1
// for a constant one outside.
int border_index(Border::Kind kind, int at, int side);

// Copies what lies under `box` to `out`, which has the box's size and does not overlap.
void crop(const ImageView& in, const Box& box, const MutableImageView& out, const Border& border = {});

}  // namespace stoker::image
