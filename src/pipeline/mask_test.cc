// SPDX-License-Identifier: Apache-2.0
#include "pipeline/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace stoker::pipeline {
namespace {

// Class 1000 y + x at each pixel of a 4 x 3 mask.
class Mask : public testing::Test {
 protected:
  static constexpr int kWidth = 4, kHeight = 3;
  Mask() : pixels_(3 * kWidth * kHeight) {
    for (int i = 0; i < kWidth * kHeight; ++i) {
      int number = 1000 * (i / kWidth) + i % kWidth;
      pixels_[static_cast<size_t>(3 * i)] = static_cast<uint8_t>(number);
      pixels_[static_cast<size_t>(3 * i + 1)] = static_cast<uint8_t>(number >> 8);
    }
  }
  std::vector<int64_t> after(const Actions& actions) {
    image::Workspace workspace;
    std::vector<uint8_t> spare[2];
    Stage stage(image::packed(pixels_.data(), {kWidth, kHeight}), image::PassOrder::kPillow13, workspace,
                spare);
    EXPECT_TRUE(apply_to_mask(actions, stage).ok());
    auto view = stage.view();
    EXPECT_TRUE(view.ok());
    std::vector<int64_t> out(static_cast<size_t>(view->width * view->height));
    EXPECT_TRUE(write_numbers(*view, DType::kInt64, reinterpret_cast<uint8_t*>(out.data())).ok());
    return out;
  }
  std::vector<uint8_t> pixels_;
};

TEST_F(Mask, GoesWhereItsPictureGoes) {
  using testing::ElementsAre;
  EXPECT_THAT(after({CropTo{{2, 1, 2, 2}, {}}}), ElementsAre(1002, 1003, 2002, 2003));
  EXPECT_THAT(after({CropTo{{-1, 2, 3, 2}, {}, 700}}), ElementsAre(700, 2000, 2001, 700, 700, 700));
  EXPECT_THAT(after({CropTo{{3, 0, 2, 1}, {image::Border::kEdge, {}}, 700}}), ElementsAre(3, 3));
  EXPECT_THAT(after({Mirror{}, CropTo{{0, 0, 2, 1}, {}}}), ElementsAre(3, 2));
  EXPECT_THAT(after({Mirror{true}, CropTo{{0, 0, 2, 1}, {}}}), ElementsAre(2000, 2001));
  EXPECT_THAT(after({ResizeTo{{2, 2}, {}}}), ElementsAre(0, 2, 1000, 1002)) << "floor, as torch's nearest";
  image::Warp right{{1, 0, -3, 0, 1, 0, 0, 0}, false, true, {9, 9, 9}};
  EXPECT_THAT(after({WarpTo{{4, 1}, right, 513}}), ElementsAre(513, 513, 513, 0));
}

TEST_F(Mask, IsLeftAloneByColours) {
  std::vector<int64_t> before = after({});
  EXPECT_EQ(
      after({AdjustBy{Adjust::kInvert, 0}, MakeGray{}, Blur{3, 3, 1}, Scale{}, Erase{{0, 0, 2, 2}, {0}, 0}}),
      before);
}

TEST_F(Mask, OfBytesRefusesGreaterNumbers) {
  image::ImageView whole = image::packed(pixels_.data(), {kWidth, kHeight});
  uint8_t out[kWidth * kHeight] = {};
  ASSERT_TRUE(write_numbers(whole.crop({0, 0, kWidth, 1}), DType::kUint8, out).ok());
  EXPECT_EQ(out[3], 3);
  auto refused = write_numbers(whole, DType::kUint8, out);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().fault->kind, "too_large");
}

}  // namespace
}  // namespace stoker::pipeline
