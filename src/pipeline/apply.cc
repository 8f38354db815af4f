// SPDX-License-Identifier: Apache-2.0
#include "pipeline/apply.h"

#include <span>
#include <utility>

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
  Status operator()(const Blur& action) { return blur({&action, 1}); }
  // Blurs one after the other. Of floats they are one blur; bytes are rounded in between.
  Status blur(std::span<const Blur> chain) {
    if (!written_) {
      STOKER_ASSIGN(image::MutableImageView picture, stage_.pixels());
      for (const Blur& one : chain)
        STOKER_TRY(image::gaussian_blur(picture, {image::cut(down(one)), image::cut(across(one))},
                                        stage_.workspace()));
      return ok();
    }
    while (!chain.empty()) {
      image::HalfKernel lines = down(chain[0]), columns = across(chain[0]);
      for (chain = chain.subspan(1); !chain.empty(); chain = chain.subspan(1)) {
        image::HalfKernel more_lines = image::convolved(lines, down(chain[0]));
        image::HalfKernel more_columns = image::convolved(columns, across(chain[0]));
        if (!reflects(more_lines, row_.size.height) || !reflects(more_columns, row_.size.width)) break;
        lines = std::move(more_lines), columns = std::move(more_columns);
      }
      image::GaussianKernel kernel{image::cut(lines), image::cut(columns)};
      for (int c = 0; c < row_.channels; ++c)
        STOKER_TRY(image::gaussian_blur(planes().plane(c), row_.size, kernel, stage_.workspace()));
    }
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
  static image::HalfKernel down(const Blur& one) { return image::gaussian(one.kernel_height, one.sigma); }
  static image::HalfKernel across(const Blur& one) { return image::gaussian(one.kernel_width, one.sigma); }
  static bool reflects(const image::HalfKernel& kernel, int side) {
    int radius = image::cut_radius(kernel);
    return radius < side && radius <= image::kMaxBlurRadius;
  }
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

Status apply(const Actions& actions, Stage& stage, const Row& row, const std::function<void(size_t)>& done) {
  Apply one(stage, row);
  std::vector<Blur> chain;
  size_t at = 0;
  for (const Action& action : actions) {
    size_t number = at++;
    if (auto blur = std::get_if<Blur>(&action)) {
      chain.push_back(*blur);
      continue;
    }
    if (!chain.empty()) {
      STOKER_TRY(one.blur(std::exchange(chain, {})));
      if (done) done(number - 1);
    }
    STOKER_TRY(std::visit(one, action));
    if (done) done(number);
  }
  if (!chain.empty()) {
    STOKER_TRY(one.blur(chain));
    if (done) done(at - 1);
  }
  return one.write();
}

}  // namespace stoker::pipeline
