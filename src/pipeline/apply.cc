// SPDX-License-Identifier: Apache-2.0
#include "pipeline/apply.h"

#include "image/blur.h"
#include "image/colour.h"
#include "pipeline/planes.h"

namespace stoker::pipeline {
namespace {

class Apply {
 public:
  Apply(Stage& stage, const Row& row) : stage_(stage), row_(row) {}

  Status operator()(const CropTo& action) { return stage_.crop(action.box, action.border); }
  Status operator()(const ResizeTo& action) { return stage_.resize(action.size, action.how); }
  Status operator()(const Mirror& action) {
    stage_.mirror(action.vertical);
    return ok();
  }
  Status operator()(const WarpTo& action) {
    STOKER_ASSIGN(Stage::Copy both, stage_.copy(action.size));
    image::warp(both.from, action.map, both.to);
    return ok();
  }
  Status operator()(const MakeGray&) {
    STOKER_ASSIGN(image::MutableImageView picture, stage_.pixels());
    image::to_gray(picture);
    return ok();
  }
  Status operator()(const AdjustBy& action) {
    if (action.what == Adjust::kSharpness) {
      STOKER_ASSIGN(Stage::Copy both, stage_.copy(stage_.size()));
      image::adjust_sharpness(both.from, static_cast<float>(action.value), both.to);
      return ok();
    }
    STOKER_ASSIGN(image::MutableImageView picture, stage_.pixels());
    adjust(picture, action.what, action.value);
    return ok();
  }
  Status operator()(const Blur& action) {
    image::GaussianKernel kernel{image::gaussian_weights(action.kernel_height, action.sigma),
                                 image::gaussian_weights(action.kernel_width, action.sigma)};
    if (!written_) {
      STOKER_ASSIGN(image::MutableImageView picture, stage_.pixels());
      return image::gaussian_blur(picture, kernel, stage_.workspace());
    }
    for (int c = 0; c < row_.channels; ++c)
      STOKER_TRY(image::gaussian_blur(planes().plane(c), row_.size, kernel, stage_.workspace()));
    return ok();
  }
  Status operator()(const Scale&) { return write(); }
  Status operator()(const Standardize& action) {
    if (std::exchange(folded_, false)) return ok();
    planes().normalize(action.mean, action.std);
    return ok();
  }
  Status operator()(const Erase& action) {
    STOKER_TRY(write());
    if (row_.table != nullptr) {
      planes().erase(action);
    } else {
      Planes<uint8_t>{row_.data, row_.size, row_.channels}.erase(action);
    }
    return ok();
  }

  // The picture goes to the row, once.
  Status write() {
    if (std::exchange(written_, true)) return ok();
    if (stage_.size() != row_.size)
      return internal("the ops made a picture of another size than the plan says");
    if (row_.table != nullptr)
      return stage_.write(image::ChwFloats{reinterpret_cast<float*>(row_.data), row_.table, row_.channels});
    return stage_.write(image::ChwBytes{row_.data, row_.channels});
  }

 private:
  Planes<float> planes() const { return {reinterpret_cast<float*>(row_.data), row_.size, row_.channels}; }

  static void adjust(const image::MutableImageView& picture, Adjust::What what, double value) {
    auto factor = static_cast<float>(value);
    switch (what) {
      case Adjust::kBrightness:
        return image::adjust_brightness(picture, factor);
      case Adjust::kContrast:
        return image::adjust_contrast(picture, factor);
      case Adjust::kSaturation:
        return image::adjust_saturation(picture, factor);
      case Adjust::kHue:
        return image::adjust_hue(picture, static_cast<int>(value * 255));
      case Adjust::kInvert:
        return image::invert(picture);
      case Adjust::kPosterize:
        return image::posterize(picture, static_cast<int>(value));
      case Adjust::kSolarize:
        return image::solarize(picture, value);
      case Adjust::kAutocontrast:
        return image::autocontrast(picture);
      case Adjust::kEqualize:
        return image::equalize(picture);
      case Adjust::kSharpness:
        return;  // not in place, see above
    }
  }

  Stage& stage_;
  const Row& row_;
  bool written_ = false;
  bool folded_ = row_.table_normalizes;
};

}  // namespace

Status apply(const Actions& actions, Stage& stage, const Row& row) {
  Apply one(stage, row);
  for (const Action& action : actions) STOKER_TRY(std::visit(one, action));
  return one.write();
}

}  // namespace stoker::pipeline
