// SPDX-License-Identifier: Apache-2.0
// The ops of a native plan, as data: what may be done to a picture, with which ranges the random ones draw.
// docs/formats/plan.md gives each its meaning. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "image/axis.h"
#include "image/border.h"
#include "image/stored_picture.h"
#include "image/view.h"

namespace stoker::pipeline {

// ---- geometry

struct DecodeRgb {
  image::Gray16 gray16 = image::Gray16::kClip;
  bool operator==(const DecodeRgb&) const = default;
};
struct RandomResizedCrop {
  int64_t height = 0, width = 0;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  image::Resampling how;
  bool operator==(const RandomResizedCrop&) const = default;
};
// Both sides; or, by torchvision's rule, the short one (height = width = 0), the long one no longer than
// `longest` if that is not 0; or, with short_side 0 too, the long one alone.
struct Resize {
  int64_t short_side = 0;
  int64_t height = 0, width = 0;
  int64_t longest = 0;
  image::Resampling how;
  bool operator==(const Resize&) const = default;
};
struct CenterCrop {
  int64_t height = 0, width = 0;
  bool operator==(const CenterCrop&) const = default;
};
using Sides = std::array<int64_t, 4>;  // left, top, right, bottom
struct Pad {
  Sides sides{};
  image::Border border;
  int64_t mask_fill = 0;  // of a constant border, in the mask where there is one; here and below
  bool operator==(const Pad&) const = default;
};
struct RandomCrop {
  int64_t height = 0, width = 0;
  Sides padding{};
  bool pad_if_needed = false;
  image::Border border;
  int64_t mask_fill = 0;
  bool operator==(const RandomCrop&) const = default;
};
struct HorizontalFlip {
  double p = 0.5;
  bool operator==(const HorizontalFlip&) const = default;
};
struct VerticalFlip {
  double p = 0.5;
  bool operator==(const VerticalFlip&) const = default;
};

// How maps that are no crop or resize take their pixels.
struct WarpLook {
  image::Filter filter = image::Filter::kNearest;  // or bilinear
  std::array<uint8_t, 3> fill{0, 0, 0};
  int64_t mask_fill = 0;
  bool operator==(const WarpLook&) const = default;
};
struct RandomRotation {
  std::array<double, 2> degrees{0, 0};  // counter-clockwise
  bool expand = false;
  std::optional<std::array<double, 2>> center;  // x, y; else the picture's
  WarpLook look;
  bool operator==(const RandomRotation&) const = default;
};
struct RandomAffine {
  std::array<double, 2> degrees{0, 0};    // clockwise
  std::array<double, 2> translate{0, 0};  // largest, as shares of width and height
  std::array<double, 2> scale{1, 1};
  std::array<double, 4> shear{0, 0, 0, 0};  // degrees: from, to along x, along y
  std::optional<std::array<double, 2>> center;
  WarpLook look;
  bool operator==(const RandomAffine&) const = default;
};
struct RandomPerspective {
  double p = 0.5;
  double distortion = 0.5;
  WarpLook look;
  bool operator==(const RandomPerspective&) const = default;
};

// ---- colour

struct Grayscale {
  int64_t channels = 3;  // 1: what comes out has one plane
  bool operator==(const Grayscale&) const = default;
};
// One change with a fixed value.
struct Adjust {
  enum What {
    kBrightness,
    kContrast,
    kSaturation,
    kHue,  // in turns, [-0.5, 0.5]
    kSharpness,
    kInvert,
    kPosterize,  // bits that are kept
    kSolarize,   // threshold
    kAutocontrast,
    kEqualize,
  };
  What what = kBrightness;
  double value = 0;
  bool operator==(const Adjust&) const = default;
};
// Up to four changes with random values, in random order.
struct ColorJitter {
  using Range = std::optional<std::array<double, 2>>;
  Range brightness, contrast, saturation, hue;
  bool operator==(const ColorJitter&) const = default;
};

// One of the steps of RandAugment, TrivialAugmentWide and AutoAugment, with one of the magnitudes.
struct Augment {
  enum What {
    kIdentity,
    kShearX,
    kShearY,
    kTranslateX,  // pixels; with `of_side`, shares of the picture's width
    kTranslateY,
    kRotate,
    kBrightness,  // 1 + magnitude is the factor, here and in the next three
    kColor,
    kContrast,
    kSharpness,
    kPosterize,
    kSolarize,
    kAutoContrast,
    kEqualize,
    kInvert,
  };
  What what = kIdentity;
  std::vector<double> magnitudes;  // none: there is nothing to choose
  bool with_sign = false;          // half of them are negated
  bool of_side = false;
  WarpLook look;
  bool operator==(const Augment&) const = default;
};

// ---- blur, and what comes after it

struct GaussianBlur {
  std::array<int64_t, 2> kernel{3, 3};  // height, width; odd
  std::array<double, 2> sigma{0.1, 2.0};
  bool operator==(const GaussianBlur&) const = default;
};
// uint8 -> float32.
struct ToFloat {
  enum Rule {
    kV1,        // x / 255: ToTensor
    kV2,        // x * float32(1/255): ToDtype(float32, scale=True)
    kUnscaled,  // x: ToDtype(float32, scale=False)
  };
  Rule rule = kV2;
  bool operator==(const ToFloat&) const = default;
};
// One entry a channel, or one for all.
struct Normalize {
  std::vector<double> mean, std;
  bool operator==(const Normalize&) const = default;
};
struct RandomErasing {
  double p = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
  std::vector<double> value;  // empty: standard normal numbers; else one, or one a channel
  bool operator==(const RandomErasing&) const = default;
};

// ---- containers

struct Op;
using Ops = std::vector<Op>;
struct RandomApply {  // all of `ops`, or none
  double p = 0.5;
  Ops ops;
};
struct RandomChoice {  // one branch
  std::vector<double> weights;
  std::vector<Ops> branches;
};
struct RandomOrder {  // all branches
  std::vector<Ops> branches;
};

struct Op : std::variant<DecodeRgb, RandomResizedCrop, Resize, CenterCrop, Pad, RandomCrop, HorizontalFlip,
                         VerticalFlip, RandomRotation, RandomAffine, RandomPerspective, Grayscale, Adjust,
                         ColorJitter, Augment, GaussianBlur, ToFloat, Normalize, RandomErasing, RandomApply,
                         RandomChoice, RandomOrder> {
  using variant::variant;
};

bool operator==(const RandomApply& a, const RandomApply& b);
bool operator==(const RandomChoice& a, const RandomChoice& b);
bool operator==(const RandomOrder& a, const RandomOrder& b);

const char* op_name(const Op& op);

// Refuses an unknown op or field by name; `where` is the op's path in the plan, for errors, `depth` how many
// containers it stands in.
Result<Op> read_op(const Json& json, const std::string& where, int depth = 0);
Json write_op(const Op& op);

inline constexpr size_t kMaxOps = 32;  // of a plan, those in containers not counted
Result<Ops> read_ops(const Json& json, const std::string& where);
Json write_ops(const Ops& ops);

// What is known of every sample after some ops, whatever the picture was.
struct Known {
  std::optional<image::Size> size;
  int channels = 3;
  bool is_planes = false;  // in the row of the batch already: only ops that work there may follow
  bool is_float = false;
  bool is_normalized = false;
  bool operator==(const Known&) const = default;
};
// Goes through all ops of a plan. Errors, naming the op, if they stand in an order that has no meaning or
// leave the size of what comes out open.
Result<Known> check_ops(const Ops& ops);
// The same from ops[begin] on, of pictures of which `known` is known; there is nothing to decode.
Result<Known> check_ops(const Ops& ops, Known known, size_t begin = 0);

}  // namespace stoker::pipeline
