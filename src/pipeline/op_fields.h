// SPDX-License-Identifier: Apache-2.0
// The fields of each op, once: the same description reads them from JSON and writes them. Fields that have
// their default are left out where the description says `or_absent`, so that each plan has one canonical
// form. Only for ops.cc.
#pragma once

#include "pipeline/ops.h"

namespace stoker::pipeline {

template <typename Enum>
using Names = std::pair<const char*, Enum>;

inline constexpr Names<image::Filter> kFilters[] = {{"bilinear", image::Filter::kBilinear},
                                                    {"bicubic", image::Filter::kBicubic},
                                                    {"nearest", image::Filter::kNearest}};
inline constexpr Names<image::Gray16> kGray16[] = {{"clip", image::Gray16::kClip},
                                                   {"scale", image::Gray16::kScale}};
inline constexpr Names<bool> kArithmetics[] = {{"pillow", false}, {"tensor", true}};
inline constexpr Names<image::Border::Kind> kBorders[] = {{"constant", image::Border::kConstant},
                                                          {"edge", image::Border::kEdge},
                                                          {"reflect", image::Border::kReflect},
                                                          {"symmetric", image::Border::kSymmetric}};
inline constexpr Names<Adjust::What> kAdjustments[] = {
    {"brightness", Adjust::kBrightness},     {"contrast", Adjust::kContrast},
    {"saturation", Adjust::kSaturation},     {"hue", Adjust::kHue},
    {"sharpness", Adjust::kSharpness},       {"invert", Adjust::kInvert},
    {"posterize", Adjust::kPosterize},       {"solarize", Adjust::kSolarize},
    {"autocontrast", Adjust::kAutocontrast}, {"equalize", Adjust::kEqualize}};
inline constexpr Names<image::Filter> kWarpFilters[] = {{"bilinear", image::Filter::kBilinear},
                                                        {"nearest", image::Filter::kNearest}};
inline constexpr Names<Augment::What> kAugmentations[] = {{"identity", Augment::kIdentity},
                                                          {"shear_x", Augment::kShearX},
                                                          {"shear_y", Augment::kShearY},
                                                          {"translate_x", Augment::kTranslateX},
                                                          {"translate_y", Augment::kTranslateY},
                                                          {"rotate", Augment::kRotate},
                                                          {"brightness", Augment::kBrightness},
                                                          {"color", Augment::kColor},
                                                          {"contrast", Augment::kContrast},
                                                          {"sharpness", Augment::kSharpness},
                                                          {"posterize", Augment::kPosterize},
                                                          {"solarize", Augment::kSolarize},
                                                          {"autocontrast", Augment::kAutoContrast},
                                                          {"equalize", Augment::kEqualize},
                                                          {"invert", Augment::kInvert}};
inline constexpr Names<ToFloat::Rule> kToFloatRules[] = {
    {"v1", ToFloat::kV1}, {"v2", ToFloat::kV2}, {"unscaled", ToFloat::kUnscaled}};

inline constexpr int64_t kMaxSide = 65535;
inline constexpr int64_t kMaxPadding = 16384;
inline constexpr int64_t kMaxBlurKernel = 127;
inline constexpr double kMaxDegrees = 1e6;
inline constexpr int64_t kMaxClass = 65535;  // number in a mask

template <typename Visitor>
void describe(Visitor& visit, image::Resampling& how) {
  visit.one_of_or_absent("filter", how.filter, kFilters, image::Filter::kBilinear);
  visit.one_of_or_absent("arithmetic", how.tensor, kArithmetics, false);
}

template <typename Visitor>
void describe(Visitor& visit, image::Border& border) {
  visit.one_of_or_absent("mode", border.kind, kBorders, image::Border::kConstant);
  visit.colour_or_absent("fill", border.fill);
}

template <typename Visitor>
void describe(Visitor& visit, DecodeRgb& op) {
  visit.one_of_or_absent("gray16", op.gray16, kGray16, image::Gray16::kClip);
}

template <typename Visitor>
void describe(Visitor& visit, RandomResizedCrop& op) {
  visit.size("size", op.height, op.width);
  visit.range("scale", op.scale, 0, 1e6);
  visit.range("ratio", op.ratio, 1e-6, 1e6);
  describe(visit, op.how);
}

template <typename Visitor>
void describe(Visitor& visit, Resize& op) {
  visit.side_or_size("size", op.short_side, op.height, op.width);
  visit.integer_or_absent("max_size", op.longest, 0, kMaxSide, 0);
  describe(visit, op.how);
}

template <typename Visitor>
void describe(Visitor& visit, CenterCrop& op) {
  visit.size("size", op.height, op.width);
}

template <typename Visitor>
void describe(Visitor& visit, Pad& op) {
  visit.integers("padding", op.sides, 0, kMaxPadding);
  describe(visit, op.border);
  visit.integer_or_absent("mask_fill", op.mask_fill, 0, kMaxClass, 0);
}

template <typename Visitor>
void describe(Visitor& visit, RandomCrop& op) {
  visit.size("size", op.height, op.width);
  visit.integers_or_absent("padding", op.padding, 0, kMaxPadding);
  visit.flag_or_absent("pad_if_needed", op.pad_if_needed);
  describe(visit, op.border);
  visit.integer_or_absent("mask_fill", op.mask_fill, 0, kMaxClass, 0);
}

template <typename Visitor>
void describe(Visitor& visit, HorizontalFlip& op) {
  visit.number("p", op.p, 0, 1);
}

template <typename Visitor>
void describe(Visitor& visit, VerticalFlip& op) {
  visit.number("p", op.p, 0, 1);
}

template <typename Visitor>
void describe(Visitor& visit, WarpLook& look) {
  visit.one_of_or_absent("filter", look.filter, kWarpFilters, image::Filter::kNearest);
  visit.colour_or_absent("fill", look.fill);
  visit.integer_or_absent("mask_fill", look.mask_fill, 0, kMaxClass, 0);
}

template <typename Visitor>
void describe(Visitor& visit, RandomRotation& op) {
  visit.range("degrees", op.degrees, -kMaxDegrees, kMaxDegrees);
  visit.flag_or_absent("expand", op.expand);
  visit.numbers_or_absent("center", op.center, -1e6, 1e6);
  describe(visit, op.look);
}

template <typename Visitor>
void describe(Visitor& visit, RandomAffine& op) {
  visit.range("degrees", op.degrees, -kMaxDegrees, kMaxDegrees);
  visit.numbers_or_absent("translate", op.translate, {0, 0}, 0, 1);
  visit.numbers_or_absent("scale", op.scale, {1, 1}, 1e-6, 1e6);
  visit.numbers_or_absent("shear", op.shear, {0, 0, 0, 0}, -kMaxDegrees, kMaxDegrees);
  visit.numbers_or_absent("center", op.center, -1e6, 1e6);
  describe(visit, op.look);
}

template <typename Visitor>
void describe(Visitor& visit, RandomPerspective& op) {
  visit.number("p", op.p, 0, 1);
  visit.number("distortion", op.distortion, 0, 1);
  describe(visit, op.look);
}

template <typename Visitor>
void describe(Visitor& visit, Augment& op) {
  visit.one_of("what", op.what, kAugmentations);
  visit.list_or_absent("magnitudes", op.magnitudes, -1e6, 1e6);
  visit.flag_or_absent("signed", op.with_sign);
  visit.flag_or_absent("of_side", op.of_side);
  describe(visit, op.look);
}

template <typename Visitor>
void describe(Visitor& visit, Grayscale& op) {
  visit.integer("channels", op.channels, 1, 3);
}

template <typename Visitor>
void describe(Visitor& visit, Adjust& op) {
  visit.one_of("what", op.what, kAdjustments);
  switch (op.what) {
    case Adjust::kBrightness:
    case Adjust::kContrast:
    case Adjust::kSaturation:
    case Adjust::kSharpness:
      return visit.number("value", op.value, 0, 1e6);
    case Adjust::kHue:
      return visit.number("value", op.value, -0.5, 0.5);
    case Adjust::kPosterize:
      return visit.number("value", op.value, 1, 8);
    case Adjust::kSolarize:
      return visit.number("value", op.value, -1e6, 1e6);
    case Adjust::kInvert:
    case Adjust::kAutocontrast:
    case Adjust::kEqualize:
      return;
  }
}

template <typename Visitor>
void describe(Visitor& visit, ColorJitter& op) {
  visit.range_or_absent("brightness", op.brightness, 0, 1e6);
  visit.range_or_absent("contrast", op.contrast, 0, 1e6);
  visit.range_or_absent("saturation", op.saturation, 0, 1e6);
  visit.range_or_absent("hue", op.hue, -0.5, 0.5);
}

template <typename Visitor>
void describe(Visitor& visit, GaussianBlur& op) {
  visit.integers("kernel", op.kernel, 1, kMaxBlurKernel);
  visit.range("sigma", op.sigma, 1e-3, 1e6);
}

template <typename Visitor>
void describe(Visitor& visit, ToFloat& op) {
  visit.one_of("rule", op.rule, kToFloatRules);
}

template <typename Visitor>
void describe(Visitor& visit, Normalize& op) {
  visit.per_channel("mean", op.mean);
  visit.divisors("std", op.std);
}

template <typename Visitor>
void describe(Visitor& visit, RandomErasing& op) {
  visit.number("p", op.p, 0, 1);
  visit.range("scale", op.scale, 0, 1);
  visit.range("ratio", op.ratio, 1e-6, 1e6);
  visit.per_channel_or_absent("value", op.value);
}

template <typename Visitor>
void describe(Visitor& visit, RandomApply& op) {
  visit.number("p", op.p, 0, 1);
  visit.ops("ops", op.ops);
}

template <typename Visitor>
void describe(Visitor& visit, RandomChoice& op) {
  visit.branches("branches", op.branches);
  visit.weights("weights", op.weights, op.branches.size());
}

template <typename Visitor>
void describe(Visitor& visit, RandomOrder& op) {
  visit.branches("branches", op.branches);
}

}  // namespace stoker::pipeline
