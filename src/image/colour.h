// SPDX-License-Identifier: Apache-2.0
// Colour changes of RGB bytes with Pillow's arithmetic (ImageEnhance, ImageOps, the HSV of convert()), which
// torchvision uses for PIL pictures: bit-equal. In place; pure functions on views.
#pragma once

#include "image/view.h"

namespace stoker::image {

// A picture blended with black, with its mean gray, with its gray version: factor 0 gives those, 1 the
// picture itself, more goes beyond it.
void adjust_brightness(const MutableImageView& picture, float factor);
void adjust_contrast(const MutableImageView& picture, float factor);
void adjust_saturation(const MutableImageView& picture, float factor);
// Turns the hue by `steps` of 256; the way to HSV and back rounds, so that 0 changes pixels too.
void adjust_hue(const MutableImageView& picture, int steps);
// Blends with the picture smoothed by 3 x 3 weights, `in`'s outermost pixels as they are. Not in place.
void adjust_sharpness(const ImageView& in, float factor, const MutableImageView& out);

void to_gray(const MutableImageView& picture);  // 0.299 R + 0.587 G + 0.114 B in all three channels
void invert(const MutableImageView& picture);
void posterize(const MutableImageView& picture, int bits);         // keeps the highest 1 to 8 bits
void solarize(const MutableImageView& picture, double threshold);  // inverts values that are not below it
void autocontrast(const MutableImageView& picture);
void equalize(const MutableImageView& picture);

}  // namespace stoker::image
