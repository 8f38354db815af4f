// SPDX-License-Identifier: Apache-2.0
// What is done to one sample: an op with its random numbers drawn. decide.h makes actions of ops, apply.h
// carries them out, and people read them as JSON. Values.
#pragma once

#include <variant>
#include <vector>

#include "base/json.h"
#include "image/axis.h"
#include "image/border.h"
#include "image/view.h"
#include "image/warp.h"
#include "pipeline/ops.h"

namespace stoker::pipeline {

struct CropTo {
  image::Box box;  // may reach outside
  image::Border border;
  int64_t mask_fill = 0;  // in place of the border's, in a mask
};
struct ResizeTo {
  image::Size size;
  image::Resampling how;
};
struct Mirror {
  bool vertical = false;
};
struct WarpTo {
  image::Size size;
  image::Warp map;
  int64_t mask_fill = 0;
};
struct MakeGray {};
struct AdjustBy {
  Adjust::What what = Adjust::kBrightness;
  double value = 0;
};
struct Blur {
  int kernel_height = 1, kernel_width = 1;
  double sigma = 1;
};
struct Erase {
  image::Box box;
  std::vector<double> value;  // empty: standard normal numbers, of which `noise` is the seed
  uint64_t noise = 0;
};
struct Scale {  // to float
  ToFloat::Rule rule = ToFloat::kV2;
};
struct Standardize {
  std::vector<double> mean, std;
};

using Action =
    std::variant<CropTo, ResizeTo, Mirror, WarpTo, MakeGray, AdjustBy, Blur, Scale, Standardize, Erase>;
using Actions = std::vector<Action>;

// {"do": name, …}: names and numbers of the torchvision function that does the same.
Json to_json(const Action& action);

}  // namespace stoker::pipeline
