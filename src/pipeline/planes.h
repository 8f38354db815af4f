// SPDX-License-Identifier: Apache-2.0
// A sample in the row of its batch: planes of uint8 or float32, and what may be done to it there. A view;
// confined.
#pragma once

#include <cmath>

#include "base/fixed_math.h"
#include "base/random.h"
#include "image/view.h"
#include "pipeline/actions.h"

namespace stoker::pipeline {

template <typename T>
struct Planes {
  T* data;
  image::Size size;
  int channels;

  ptrdiff_t area() const { return ptrdiff_t{size.width} * size.height; }
  T* plane(int c) const { return data + c * area(); }

  // (x - mean) / std, each step rounded to float32.
  void normalize(const std::vector<double>& means, const std::vector<double>& stds) const {
    for (int c = 0; c < channels; ++c) {
      auto mean = static_cast<float>(of_channel(means, c)), std = static_cast<float>(of_channel(stds, c));
      T* at = plane(c);
      for (ptrdiff_t i = 0; i < area(); ++i) at[i] = (at[i] - mean) / std;
    }
  }

  void erase(const Erase& action) const {
    for (int c = 0; c < channels; ++c) {
      for (int y = 0; y < action.box.height; ++y) {
        T* at = plane(c) + (ptrdiff_t{action.box.top} + y) * size.width + action.box.left;
        auto line = static_cast<uint32_t>(c * action.box.height + y);
        if (action.value.empty()) {
          normals(action.noise, line, at, action.box.width);
        } else {
          std::fill(at, at + action.box.width, static_cast<T>(of_channel(action.value, c)));
        }
      }
    }
  }

 private:
  static double of_channel(const std::vector<double>& values, int c) {
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(c)];
  }
  // Box and Muller: two numbers of two unit draws. Each line has draws of its own.
  static void normals(uint64_t noise, uint32_t line, T* out, int count) {
    SampleRandom draws(noise, line, 0);
    for (int x = 0; x < count; x += 2) {
      double length = std::sqrt(-2 * fixed_log(1 - draws.next_unit()));
      double angle = 6.283185307179586 * draws.next_unit();
      out[x] = static_cast<T>(length * fixed_cos(angle));
      if (x + 1 < count) out[x + 1] = static_cast<T>(length * fixed_sin(angle));
    }
  }
};

}  // namespace stoker::pipeline
