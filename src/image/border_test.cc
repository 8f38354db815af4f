// SPDX-License-Identifier: Apache-2.0
#include "image/border.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker::image {
namespace {

std::vector<int> row(Border::Kind kind, int from, int to, int side) {
  std::vector<int> out;
  for (int at = from; at < to; ++at) out.push_back(border_index(kind, at, side));
  return out;
}

TEST(Border, GoesOnForEver) {
  EXPECT_EQ(row(Border::kConstant, -2, 5, 3), (std::vector{-1, -1, 0, 1, 2, -1, -1}));
  EXPECT_EQ(row(Border::kEdge, -2, 5, 3), (std::vector{0, 0, 0, 1, 2, 2, 2}));
  EXPECT_EQ(row(Border::kReflect, -5, 8, 3), (std::vector{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(row(Border::kSymmetric, -4, 7, 3), (std::vector{2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0}));
  EXPECT_EQ(row(Border::kReflect, -2, 3, 1), (std::vector{0, 0, 0, 0, 0}));
}

TEST(Crop, TakesWhatIsOutsideFromTheBorder) {
  std::vector<uint8_t> pixels{1, 2, 3, 4, 5, 6};  // two pixels
  ImageView in{pixels.data(), 2, 1, 6};
  std::vector<uint8_t> out(3 * 4 * 2);
  crop(in, {-1, 0, 4, 2}, packed(out.data(), {4, 2}), {Border::kConstant, {7, 8, 9}});
  EXPECT_EQ(out,
            (std::vector<uint8_t>{7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9, 7, 8, 9}));
  crop(in, {-1, 0, 4, 2}, packed(out.data(), {4, 2}), {Border::kEdge, {}});
  EXPECT_EQ(out,
            (std::vector<uint8_t>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

}  // namespace
}  // namespace stoker::image
