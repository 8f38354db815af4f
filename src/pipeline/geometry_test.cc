// SPDX-License-Identifier: Apache-2.0
// Distributions are compared with torchvision's in python/stoker/data/pipeline_test.py.
#include "pipeline/geometry.h"

#include <gtest/gtest.h>

namespace stoker::pipeline {
namespace {

image::Box crop_at(const RandomResizedCrop& op, image::Size picture, uint64_t position) {
  SampleRandom draws(1, position, 1);
  return random_resized_crop_box(op, picture, draws);
}

TEST(RandomResizedCrop, StaysInsideAndNearItsRanges) {
  RandomResizedCrop op{224, 224};
  for (image::Size picture : {image::Size{500, 375}, {375, 500}, {224, 224}, {17, 900}}) {
    for (uint64_t position = 0; position < 2000; ++position) {
      image::Box box = crop_at(op, picture, position);
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
  EXPECT_EQ(crop_at(op, {100, 400}, 2), (image::Box{0, 133, 100, 133}));
  EXPECT_EQ(crop_at(op, {400, 100}, 2), (image::Box{137, 0, 125, 100}));  // 125.0
  EXPECT_EQ(crop_at(op, {100, 90}, 2), (image::Box{0, 0, 100, 90}));
}

TEST(RandomResizedCrop, DependsOnPositionAloneAndOnAllOfIt) {
  RandomResizedCrop op{224, 224};
  auto at = [&](uint64_t seed, uint64_t position, uint32_t number) {
    SampleRandom draws(seed_key(seed), position, number);
    return random_resized_crop_box(op, {5000, 3750}, draws);
  };
  EXPECT_EQ(at(1, 2, 1), at(1, 2, 1));
  EXPECT_NE(at(1, 2, 1), at(2, 2, 1));
  EXPECT_NE(at(1, 2, 1), at(1, 3, 1));
  EXPECT_NE(at(1, 2, 1), at(1, 2 + (uint64_t{1} << 32), 1));
  EXPECT_NE(at(1, 2, 1), at(1, 2, 2));
}

TEST(Resize, RefusesALongSideWithoutBounds) {
  EXPECT_EQ(*resized({256}, {500, 375}), (image::Size{341, 256}));
  EXPECT_EQ(*resized({0, 7, 9}, {500, 375}), (image::Size{9, 7}));
  auto refused = resized({60000}, {1, 60000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().fault->kind, "too_large");
}

}  // namespace
}  // namespace stoker::pipeline
