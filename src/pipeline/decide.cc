// SPDX-License-Identifier: Apache-2.0
#include "pipeline/decide.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "image/decode.h"
#include "image/resize.h"
#include "pipeline/geometry.h"
#include "pipeline/warps.h"

namespace stoker::pipeline {
namespace {

image::Size size_of(int64_t height, int64_t width) {
  return {static_cast<int>(width), static_cast<int>(height)};
}

Error too_large(int64_t pixels) {
  Error error{Code::kData, "pad would make a picture of " + std::to_string(pixels) + " pixels", {}};
  error.fault = DataFault{"too_large", "", -1};
  return error;
}

class Decide {
 public:
  Decide(SampleRandom& draws, image::Size& picture, Actions& out)
      : draws_(draws), picture_(picture), out_(out) {}

  Status operator()(const DecodeRgb&) { return ok(); }
  Status operator()(const RandomResizedCrop& op) {
    STOKER_TRY(crop(random_resized_crop_box(op, picture_, draws_), {}));
    return resize(size_of(op.height, op.width), op.how);
  }
  Status operator()(const Resize& op) {
    STOKER_ASSIGN(image::Size size, resized(op, picture_));
    return resize(size, op.how);
  }
  Status operator()(const CenterCrop& op) {
    return crop(image::center_crop_box(picture_, size_of(op.height, op.width)), {});
  }
  Status operator()(const Pad& op) {
    auto [left, top, right, bottom] = op.sides;
    int64_t width = picture_.width + left + right, height = picture_.height + top + bottom;
    if (width * height > image::kMaxPixels) return too_large(width * height);
    return crop(
        {-static_cast<int>(left), -static_cast<int>(top), static_cast<int>(width), static_cast<int>(height)},
        op.border, op.mask_fill);
  }
  Status operator()(const RandomCrop& op) {
    STOKER_ASSIGN(image::Box box, random_crop_box(op, picture_, draws_));
    return crop(box, op.border, op.mask_fill);
  }
  Status operator()(const HorizontalFlip& op) { return flip(op.p, false); }
  Status operator()(const VerticalFlip& op) { return flip(op.p, true); }

  Status operator()(const RandomRotation& op) {
    double angle = draws_.next_uniform(op.degrees[0], op.degrees[1]);
    return rotate(angle, op.expand, op.center.value_or(middle()), op.look);
  }
  Status operator()(const RandomAffine& op) {
    AffineValues values;
    values.angle = draws_.next_uniform(op.degrees[0], op.degrees[1]);
    for (size_t i = 0; i < 2; ++i) {
      double most = op.translate[i] * (i == 0 ? picture_.width : picture_.height);
      if (op.translate[i] > 0) values.translate[i] = std::nearbyint(draws_.next_uniform(-most, most));
    }
    values.scale = draws_.next_uniform(op.scale[0], op.scale[1]);
    for (size_t i = 0; i < 2; ++i)
      values.shear[i] = draws_.next_uniform(op.shear[2 * i], op.shear[2 * i + 1]);
    return warp(affine_matrix(values, op.center.value_or(middle())), picture_, op.look);
  }
  Status operator()(const RandomPerspective& op) {
    if (draws_.next_unit() >= op.p) return ok();
    int room_x = static_cast<int>(op.distortion * (picture_.width / 2)) + 1;
    int room_y = static_cast<int>(op.distortion * (picture_.height / 2)) + 1;
    Corners ends;
    for (size_t i = 0; i < 4; ++i) {
      int x = below(room_x), y = below(room_y);
      ends[i] = {i == 1 || i == 2 ? picture_.width - room_x + x : x,
                 i >= 2 ? picture_.height - room_y + y : y};
    }
    return warp(perspective_matrix(picture_, ends), picture_, op.look, true);
  }
  Status operator()(const Augment& op) {
    double magnitude = op.magnitudes.empty() ? 0 : op.magnitudes[draws_.next_below(op.magnitudes.size())];
    if (op.with_sign && draws_.next_unit() < 0.5) magnitude = -magnitude;
    return augment(op, magnitude);
  }

  Status operator()(const Grayscale&) { return add(MakeGray{}); }
  Status operator()(const Adjust& op) { return add(AdjustBy{op.what, op.value}); }
  Status operator()(const ColorJitter& op) {
    const std::pair<Adjust::What, const ColorJitter::Range*> all[] = {{Adjust::kBrightness, &op.brightness},
                                                                      {Adjust::kContrast, &op.contrast},
                                                                      {Adjust::kSaturation, &op.saturation},
                                                                      {Adjust::kHue, &op.hue}};
    std::array<size_t, 4> order = shuffled<4>();
    double values[4] = {};
    for (size_t i = 0; i < 4; ++i)
      if (*all[i].second) values[i] = draws_.next_uniform((**all[i].second)[0], (**all[i].second)[1]);
    for (size_t i : order)
      if (*all[i].second) STOKER_TRY(add(AdjustBy{all[i].first, values[i]}));
    return ok();
  }

  Status operator()(const GaussianBlur& op) {
    if (picture_.height <= op.kernel[0] / 2 || picture_.width <= op.kernel[1] / 2)
      return invalid("gaussian_blur: the picture is too small for the kernel's reflection at its edge");
    return add(Blur{static_cast<int>(op.kernel[0]), static_cast<int>(op.kernel[1]),
                    draws_.next_uniform(op.sigma[0], op.sigma[1])});
  }
  Status operator()(const ToFloat& op) { return add(Scale{op.rule}); }
  Status operator()(const Normalize& op) { return add(Standardize{op.mean, op.std}); }
  Status operator()(const RandomErasing& op) {
    if (draws_.next_unit() >= op.p) return ok();
    std::optional<image::Box> box = random_erasing_box(op, picture_, draws_);
    if (!box) return ok();
    return add(Erase{*box, op.value, op.value.empty() ? draws_.next_u64() : 0});
  }

  Status operator()(const RandomApply& op) {
    if (draws_.next_unit() >= op.p) return ok();
    return all_of(op.ops);
  }
  Status operator()(const RandomChoice& op) {
    double sum = std::accumulate(op.weights.begin(), op.weights.end(), 0.0);
    double left = draws_.next_unit() * sum;
    size_t chosen = 0;
    for (size_t i = 0; i < op.weights.size(); ++i) {
      if (op.weights[i] == 0) continue;
      chosen = i;  // the last of weight > 0, should rounding leave none
      if (left < op.weights[i]) break;
      left -= op.weights[i];
    }
    return all_of(op.branches[chosen]);
  }
  Status operator()(const RandomOrder& op) {
    std::vector<size_t> order(op.branches.size());
    shuffle(order.data(), order.size());
    for (size_t i : order) STOKER_TRY(all_of(op.branches[i]));
    return ok();
  }

 private:
  Status add(Action action) {
    out_.push_back(std::move(action));
    return ok();
  }
  Status crop(const image::Box& box, const image::Border& border, int64_t mask_fill = 0) {
    picture_ = box.size();
    return add(CropTo{box, border, mask_fill});
  }
  Status resize(image::Size size, const image::Resampling& how) {
    picture_ = size;
    return add(ResizeTo{size, how});
  }
  Status flip(double p, bool vertical) { return draws_.next_unit() < p ? add(Mirror{vertical}) : ok(); }
  int below(int bound) { return static_cast<int>(draws_.next_below(static_cast<uint64_t>(bound))); }
  std::array<double, 2> middle() const { return {picture_.width * 0.5, picture_.height * 0.5}; }
  Status warp(const Matrix& matrix, image::Size size, const WarpLook& look, bool perspective = false) {
    picture_ = size;
    image::Warp map{matrix, perspective, look.filter == image::Filter::kBilinear, look.fill};
    return add(WarpTo{size, map, look.mask_fill});
  }
  Status rotate(double angle, bool expand, const std::array<double, 2>& center, const WarpLook& look) {
    auto [matrix, size] = rotation(angle, expand, center, picture_);
    return warp(matrix, size, look);
  }
  // torchvision shears about the corner, by the arc tangent of the magnitude.
  Status shear(double x, double y, const WarpLook& look) {
    return warp({1, x, 0, y, 1, 0, 0, 0}, picture_, look);
  }
  Status translate(double x, double y, const WarpLook& look) {
    return warp({1, 0, -std::trunc(x), 0, 1, -std::trunc(y), 0, 0}, picture_, look);
  }
  Status augment(const Augment& op, double magnitude) {
    switch (op.what) {
      case Augment::kIdentity:
        return ok();
      case Augment::kShearX:
        return shear(magnitude, 0, op.look);
      case Augment::kShearY:
        return shear(0, magnitude, op.look);
      case Augment::kTranslateX:
        return translate(op.of_side ? magnitude * picture_.width : magnitude, 0, op.look);
      case Augment::kTranslateY:
        return translate(0, op.of_side ? magnitude * picture_.height : magnitude, op.look);
      case Augment::kRotate:
        return rotate(magnitude, false, middle(), op.look);
      case Augment::kBrightness:
        return add(AdjustBy{Adjust::kBrightness, 1 + magnitude});
      case Augment::kColor:
        return add(AdjustBy{Adjust::kSaturation, 1 + magnitude});
      case Augment::kContrast:
        return add(AdjustBy{Adjust::kContrast, 1 + magnitude});
      case Augment::kSharpness:
        return add(AdjustBy{Adjust::kSharpness, 1 + magnitude});
      case Augment::kPosterize:
        return add(AdjustBy{Adjust::kPosterize, std::clamp(std::trunc(magnitude), 1.0, 8.0)});
      case Augment::kSolarize:
        return add(AdjustBy{Adjust::kSolarize, magnitude});
      case Augment::kAutoContrast:
        return add(AdjustBy{Adjust::kAutocontrast, 0});
      case Augment::kEqualize:
        return add(AdjustBy{Adjust::kEqualize, 0});
      case Augment::kInvert:
        return add(AdjustBy{Adjust::kInvert, 0});
    }
    return ok();
  }
  Status all_of(const Ops& ops) {
    for (const Op& op : ops) STOKER_TRY(decide(op, draws_, picture_, out_));
    return ok();
  }
  // Fisher and Yates, from the back.
  void shuffle(size_t* order, size_t count) {
    std::iota(order, order + count, size_t{0});
    for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[draws_.next_below(i)]);
  }
  template <size_t N>
  std::array<size_t, N> shuffled() {
    std::array<size_t, N> order;
    shuffle(order.data(), N);
    return order;
  }

  SampleRandom& draws_;
  image::Size& picture_;
  Actions& out_;
};

}  // namespace

Status decide(const Op& op, SampleRandom& draws, image::Size& picture, Actions& out) {
  return std::visit(Decide(draws, picture, out), static_cast<const Op::variant&>(op));
}

}  // namespace stoker::pipeline
