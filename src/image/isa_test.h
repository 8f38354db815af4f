// SPDX-License-Identifier: Apache-2.0
// For tests that run once on each instruction set; those of our JPEG decoder draw their pictures from a seed.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "image/jpeg_kernels.h"
#include "image/view.h"
#include "image/workspace_parts.h"

namespace stoker::image {

class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  explicit IsaTest(unsigned seed) : random_(seed) {}
  void SetUp() override {
    if (kernels_of(GetParam()) == nullptr) GTEST_SKIP() << "this processor lacks it";
    workspace_.parts().kernels = kernels_of(GetParam());
  }
  int below(int count) { return int(random_() % unsigned(count)); }
  Box any_box(Size in) {
    int width = 1 + below(in.width);
    int height = 1 + below(in.height);
    return {below(in.width - width + 1), below(in.height - height + 1), width, height};
  }

  Workspace workspace_;
  std::mt19937 random_;
};

inline std::string isa_name(const testing::TestParamInfo<Isa>& info) {
  const char* const names[] = {"Scalar", "Avx2", "Avx512"};
  return names[int(info.param)];
}

}  // namespace stoker::image
