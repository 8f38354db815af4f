// SPDX-License-Identifier: Apache-2.0
#include "pipeline/geometry.h"

#include <algorithm>
#include <cmath>

#include "image/resize.h"

namespace stoker::pipeline {
namespace {

// Python's round(): half to even. The rounding mode is the default one everywhere in stoker.
int round_half_even(double x) { return static_cast<int>(std::nearbyint(std::min(x, 2e9))); }

constexpr double kMaxLongSide = 1e6;

}  // namespace

double fixed_log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  double s = (m - 1) / (m + 1);  // |s| < 0.172
  double s2 = s * s, sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

double fixed_exp(double x) {
  double k = std::nearbyint(x * 1.4426950408889634);
  double r = x - k * 0.69314718036912382 - k * 1.9082149292705877e-10;  // ln 2 in two parts
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = sum * r / i + 1;
  return std::ldexp(sum, static_cast<int>(k));
}

image::Box random_resized_crop_box(const RandomResizedCrop& op, image::Size picture, SampleRandom draws) {
  double area = static_cast<double>(picture.height) * picture.width;
  double log_low = fixed_log(op.ratio[0]), log_high = fixed_log(op.ratio[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    double target_area = area * draws.next_uniform(op.scale[0], op.scale[1]);
    double aspect = fixed_exp(draws.next_uniform(log_low, log_high));
    int width = round_half_even(std::sqrt(target_area * aspect));
    int height = round_half_even(std::sqrt(target_area / aspect));
    if (width <= 0 || width > picture.width || height <= 0 || height > picture.height) continue;
    auto top = static_cast<int>(draws.next_below(static_cast<uint64_t>(picture.height - height + 1)));
    auto left = static_cast<int>(draws.next_below(static_cast<uint64_t>(picture.width - width + 1)));
    return {left, top, width, height};
  }
  double in_ratio = static_cast<double>(picture.width) / picture.height;
  int width = picture.width, height = picture.height;
  if (in_ratio < op.ratio[0]) {
    height = round_half_even(width / op.ratio[0]);
  } else if (in_ratio > op.ratio[1]) {
    width = round_half_even(height * op.ratio[1]);
  }
  return {(picture.width - width) / 2, (picture.height - height) / 2, width, height};
}

bool flips(const HorizontalFlip& op, SampleRandom draws) { return draws.next_unit() < op.p; }

Result<image::Size> resized(const Resize& op, image::Size picture) {
  if (op.short_side == 0) return image::Size{static_cast<int>(op.width), static_cast<int>(op.height)};
  double longer = std::max(picture.width, picture.height), shorter = std::min(picture.width, picture.height);
  if (static_cast<double>(op.short_side) * longer / shorter > kMaxLongSide) {
    Error error{Code::kData, "a resize of the short side would make the long one over a million pixels", {}};
    error.fault = DataFault{"too_large", "", -1};
    return error;
  }
  return image::resized_size(picture, static_cast<int>(op.short_side));
}

Result<image::Size> size_after(const Op& op, image::Size picture) {
  if (auto crop = std::get_if<RandomResizedCrop>(&op))
    return image::Size{static_cast<int>(crop->width), static_cast<int>(crop->height)};
  if (auto resize = std::get_if<Resize>(&op)) return resized(*resize, picture);
  if (auto crop = std::get_if<CenterCrop>(&op))
    return image::Size{static_cast<int>(crop->width), static_cast<int>(crop->height)};
  return picture;
}

}  // namespace stoker::pipeline
