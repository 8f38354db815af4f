// SPDX-License-Identifier: Apache-2.0
#include "pipeline/geometry.h"

#include <algorithm>
#include <cmath>

#include "base/fixed_math.h"
#include "image/resize.h"

namespace stoker::pipeline {
namespace {

// Python's round(): half to even. The rounding mode is the default one everywhere in stoker.
int round_half_even(double x) { return static_cast<int>(std::nearbyint(std::min(x, 2e9))); }

constexpr double kMaxLongSide = 1e6;

}  // namespace

image::Box random_resized_crop_box(const RandomResizedCrop& op, image::Size picture, SampleRandom& draws) {
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

Result<image::Box> random_crop_box(const RandomCrop& op, image::Size picture, SampleRandom& draws) {
  auto [left, top, right, bottom] = op.padding;
  int64_t width = picture.width + left + right, height = picture.height + top + bottom;
  if (op.pad_if_needed) {  // the same on both sides, as torchvision
    int64_t more_x = std::max<int64_t>(0, op.width - width),
            more_y = std::max<int64_t>(0, op.height - height);
    left += more_x, width += 2 * more_x;
    top += more_y, height += 2 * more_y;
  }
  if (width < op.width || height < op.height) {
    return invalid("random_crop: " + std::to_string(op.height) + " x " + std::to_string(op.width) +
                   " is larger than the picture with its padding, " + std::to_string(height) + " x " +
                   std::to_string(width));
  }
  auto from = [&](int64_t room) {
    return static_cast<int64_t>(draws.next_below(static_cast<uint64_t>(room + 1)));
  };
  int64_t y = from(height - op.height) - top;
  int64_t x = from(width - op.width) - left;
  return image::Box{static_cast<int>(x), static_cast<int>(y), static_cast<int>(op.width),
                    static_cast<int>(op.height)};
}

std::optional<image::Box> random_erasing_box(const RandomErasing& op, image::Size picture,
                                             SampleRandom& draws) {
  double area = static_cast<double>(picture.height) * picture.width;
  double log_low = fixed_log(op.ratio[0]), log_high = fixed_log(op.ratio[1]);
  for (int attempt = 0; attempt < 10; ++attempt) {
    double target_area = area * draws.next_uniform(op.scale[0], op.scale[1]);
    double aspect = fixed_exp(draws.next_uniform(log_low, log_high));
    int height = round_half_even(std::sqrt(target_area * aspect));
    int width = round_half_even(std::sqrt(target_area / aspect));
    if (height >= picture.height || width >= picture.width) continue;
    auto top = static_cast<int>(draws.next_below(static_cast<uint64_t>(picture.height - height + 1)));
    auto left = static_cast<int>(draws.next_below(static_cast<uint64_t>(picture.width - width + 1)));
    return image::Box{left, top, width, height};
  }
  return std::nullopt;
}

Result<image::Size> resized(const Resize& op, image::Size picture) {
  if (op.height != 0) return image::Size{static_cast<int>(op.width), static_cast<int>(op.height)};
  double longer = std::max(picture.width, picture.height), shorter = std::min(picture.width, picture.height);
  if (op.longest == 0 && static_cast<double>(op.short_side) * longer / shorter > kMaxLongSide) {
    Error error{Code::kData, "a resize of the short side would make the long one over a million pixels", {}};
    error.fault = DataFault{"too_large", "", -1};
    return error;
  }
  image::Size size =
      image::resized_size(picture, static_cast<int>(op.short_side), static_cast<int>(op.longest));
  if (size.width > 0 && size.height > 0) return size;
  return invalid("resize: max_size would leave a side of no pixels");
}

}  // namespace stoker::pipeline
