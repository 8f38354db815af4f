// SPDX-License-Identifier: Apache-2.0
// Distributions are compared with torchvision's in python/stoker/data/pipeline_test.py.
#include "pipeline/geometry.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stoker::pipeline {
namespace {

TEST(FixedMath, IsAccurate) {
  for (double x = 1e-6; x < 1e6; x *= 1.37) {
    EXPECT_NEAR(fixed_log(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
    EXPECT_NEAR(fixed_exp(std::log(x)) / std::exp(std::log(x)), 1, 1e-14);
  }
  EXPECT_EQ(fixed_log(1), 0);
  EXPECT_EQ(fixed_exp(0), 1);
}

TEST(RandomResizedCrop, StaysInsideAndNearItsRanges) {
  RandomResizedCrop op{224, 224};
  for (image::Size picture : {image::Size{500, 375}, {375, 500}, {224, 224}, {17, 900}}) {
    for (uint64_t position = 0; position < 2000; ++position) {
      image::Box box = random_resized_crop_box(op, picture, SampleRandom(1, position, 1));
      ASSERT_TRUE(image::inside(box, picture));
      double area = double(box.width) * box.height / picture.width / picture.height;
      EXPECT_LT(area, 1.0001);
      if (picture.height < 900) {
        EXPECT_GT(area, 0.07);
      }
    }
  }
}

TEST(RandomResizedCrop, FallsBackToTheCentre) {
  RandomResizedCrop op{224, 224, {2, 3}, {0.75, 1.25}};  // an area that never fits
  EXPECT_EQ(random_resized_crop_box(op, {100, 400}, SampleRandom(1, 2, 1)), (image::Box{0, 133, 100, 133}));
  EXPECT_EQ(random_resized_crop_box(op, {400, 100}, SampleRandom(1, 2, 1)),
            (image::Box{137, 0, 125, 100}));  // 125.0
  EXPECT_EQ(random_resized_crop_box(op, {100, 90}, SampleRandom(1, 2, 1)), (image::Box{0, 0, 100, 90}));
}

TEST(RandomResizedCrop, DependsOnPositionAloneAndOnAllOfIt) {
  RandomResizedCrop op{224, 224};
  auto at = [&](uint64_t seed, uint64_t position, uint32_t number) {
    return random_resized_crop_box(op, {5000, 3750}, SampleRandom(seed_key(seed), position, number));
  };
  EXPECT_EQ(at(1, 2, 1), at(1, 2, 1));
  EXPECT_NE(at(1, 2, 1), at(2, 2, 1));
  EXPECT_NE(at(1, 2, 1), at(1, 3, 1));
  EXPECT_NE(at(1, 2, 1), at(1, 2 + (uint64_t{1} << 32), 1));
  EXPECT_NE(at(1, 2, 1), at(1, 2, 2));
}

TEST(HorizontalFlip, HasItsProbability) {
  for (double p : {0.0, 0.25, 0.5, 1.0}) {
    int flipped = 0;
    for (uint64_t position = 0; position < 10000; ++position)
      flipped += flips({p}, SampleRandom(9, position, 2));
    EXPECT_NEAR(flipped / 1e4, p, 5 * std::sqrt(p * (1 - p) / 1e4));
  }
}

TEST(Resize, RefusesALongSideWithoutBounds) {
  EXPECT_EQ(*resized({256, 0, 0}, {500, 375}), (image::Size{341, 256}));
  EXPECT_EQ(*resized({0, 7, 9}, {500, 375}), (image::Size{9, 7}));
  auto refused = resized({60000, 0, 0}, {1, 60000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().fault->kind, "too_large");
}

}  // namespace
}  // namespace stoker::pipeline
