// SPDX-License-Identifier: Apache-2.0
#include "base/fixed_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace stoker {
namespace {

TEST(FixedMath, IsAccurate) {
  for (double x = 1e-6; x < 1e6; x *= 1.37) {
    EXPECT_NEAR(fixed_log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
    EXPECT_NEAR(fixed_exp(std::log(x)) / std::exp(std::log(x)), 1, 1e-14);
  }
  EXPECT_EQ(fixed_log(1), 0);
  EXPECT_EQ(fixed_exp(0), 1);
  for (double x = -800; x < 800; x += 0.137) {
    EXPECT_NEAR(fixed_sin(x), std::sin(x), 1e-14);
    EXPECT_NEAR(fixed_cos(x), std::cos(x), 1e-14);
  }
  EXPECT_EQ(fixed_sin(0), 0);
  EXPECT_EQ(fixed_cos(0), 1);
}

}  // namespace
}  // namespace stoker
