// SPDX-License-Identifier: Apache-2.0
#include "pipeline/actions.h"

#include "pipeline/op_fields.h"

namespace stoker::pipeline {
namespace {

template <typename Enum, size_t N>
const char* name_of(Enum value, const Names<Enum> (&names)[N]) {
  for (auto [name, meaning] : names)
    if (meaning == value) return name;
  return "";
}

Json list(const std::vector<double>& values) { return Json(Json::Array(values.begin(), values.end())); }

void set_box(Json& out, const image::Box& box) {
  out.set("top", box.top).set("left", box.left).set("height", box.height).set("width", box.width);
}

struct Write {
  Json& out;
  void operator()(const CropTo& action) {
    out.set("do", "crop");
    set_box(out, action.box);
    const auto& fill = action.border.fill;
    out.set("mode", name_of(action.border.kind, kBorders));
    out.set("fill", Json(Json::Array{int{fill[0]}, int{fill[1]}, int{fill[2]}}));
  }
  void operator()(const ResizeTo& action) {
    out.set("do", "resize").set("height", action.size.height).set("width", action.size.width);
    out.set("filter", name_of(action.how.filter, kFilters));
    out.set("arithmetic", name_of(action.how.tensor, kArithmetics));
  }
  void operator()(const Mirror& action) {
    out.set("do", action.vertical ? "vertical_flip" : "horizontal_flip");
  }
  void operator()(const WarpTo& action) {
    const image::Warp& map = action.map;
    size_t numbers = map.perspective ? 8 : 6;
    out.set("do", map.perspective ? "perspective" : "affine");
    out.set("matrix", list({map.at.begin(), map.at.begin() + numbers}));
    out.set("height", action.size.height).set("width", action.size.width);
    out.set("filter", map.bilinear ? "bilinear" : "nearest");
    out.set("fill", Json(Json::Array{int{map.fill[0]}, int{map.fill[1]}, int{map.fill[2]}}));
  }
  void operator()(const MakeGray&) { out.set("do", "grayscale"); }
  void operator()(const AdjustBy& action) {
    out.set("do", name_of(action.what, kAdjustments)).set("value", action.value);
  }
  void operator()(const Blur& action) {
    out.set("do", "gaussian_blur").set("sigma", action.sigma);
    out.set("kernel", Json(Json::Array{action.kernel_height, action.kernel_width}));
  }
  void operator()(const Scale& action) {
    out.set("do", "to_float").set("rule", name_of(action.rule, kToFloatRules));
  }
  void operator()(const Standardize& action) {
    out.set("do", "normalize").set("mean", list(action.mean)).set("std", list(action.std));
  }
  void operator()(const Erase& action) {
    out.set("do", "erase").set("value", list(action.value));
    set_box(out, action.box);
  }
};

}  // namespace

Json to_json(const Action& action) {
  Json out;
  std::visit(Write{out}, action);
  return out;
}

}  // namespace stoker::pipeline
