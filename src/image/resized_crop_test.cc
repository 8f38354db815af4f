// SPDX-License-Identifier: Apache-2.0
#include "image/resized_crop.h"

#include <gtest/gtest.h>

#include <cstring>

#include "image/border.h"
#include "image/decode.h"
#include "image/test_pictures.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

int between(std::mt19937& random, int low, int high) {
  return low + int(random() % unsigned(high - low + 1));
}

Box any_box(Size in, std::mt19937& random) {
  int width = between(random, 1, in.width);
  int height = between(random, 1, in.height);
  return {between(random, 0, in.width - width), between(random, 0, in.height - height), width, height};
}

// Both passes over whole pictures, by the book.
std::vector<uint8_t> resized_plainly(const ImageView& in, Size to, bool vertical_first) {
  auto pass = [](const std::vector<uint8_t>& from, Size size, bool vertical, int out) {
    int in_side = vertical ? size.height : size.width;
    if (in_side == out) return from;
    Axis axis;
    axis.set(in_side, out, 0, out);
    Size result = vertical ? Size{size.width, out} : Size{out, size.height};
    std::vector<uint8_t> made(3 * size_t(result.width) * size_t(result.height));
    for (int y = 0; y < result.height; ++y) {
      for (int x = 0; x < result.width; ++x) {
        int i = vertical ? y : x;
        for (int c = 0; c < 3; ++c) {
          int32_t sum = 1 << (kWeightBits - 1);
          for (int t = 0; t < axis.count(i); ++t) {
            int at = axis.source_begin() + axis.first(i) + t;
            size_t pixel = vertical ? size_t(at) * size_t(size.width) + size_t(x)
                                    : size_t(y) * size_t(size.width) + size_t(at);
            sum += from[3 * pixel + size_t(c)] * axis.weights(i)[t];
          }
          made[3 * (size_t(y) * size_t(result.width) + size_t(x)) + size_t(c)] = uint8_t(sum >> kWeightBits);
        }
      }
    }
    return made;
  };
  std::vector<uint8_t> pixels(3 * size_t(in.width) * size_t(in.height));
  crop(in, {0, 0, in.width, in.height}, packed(pixels.data(), in.size()));
  if (vertical_first)
    return pass(pass(pixels, in.size(), true, to.height), {in.width, to.height}, false, to.width);
  return pass(pass(pixels, in.size(), false, to.width), {to.width, in.height}, true, to.height);
}

TEST(ResizedCropTest, FusedIsTheSameAsStepByStepOnEveryInstructionSet) {
  std::mt19937 random(11);
  NormalizeTable table(ToFloat::kMultiply, MeanStd{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  Workspace whole_space;
  Workspace workspace;
  for (int round = 0; round < 150; ++round) {
    JpegKind kind = any_kind(random);
    Size size{between(random, 1, 180), between(random, 1, 180)};
    auto data = make_jpeg(size, kind, random);
    auto whole = decode_rgb(data, whole_space);
    ASSERT_TRUE(whole.ok());
    for (Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      if (kernels_of(isa) == nullptr) continue;
      workspace.parts().kernels = kernels_of(isa);
      ResizedCrop params{.crop = any_box(size, random)};
      params.size = {between(random, 1, 80), between(random, 1, 80)};
      if (random() % 8 == 0) params.size.width = params.crop.width;
      if (random() % 8 == 0) params.size.height = params.crop.height;
      if (random() % 2 == 0) params.window = any_box(params.size, random);
      params.flip = random() % 2 == 0;
      params.order = random() % 2 == 0 ? PassOrder::kPillow12 : PassOrder::kPillow13;

      auto resized = resized_plainly(whole->crop(params.crop), params.size,
                                     vertical_first(params.order, params.crop.size(), params.size));
      Box window = params.written();
      std::vector<uint8_t> want(3 * size_t(window.width) * size_t(window.height));
      auto wanted = packed(want.data(), window.size());
      crop(packed(resized.data(), params.size), window, wanted);
      if (params.flip) flip(wanted, wanted);

      std::vector<uint8_t> got(want.size());
      ASSERT_TRUE(decode_resized_crop(data, params, HwcBytes{got.data()}, workspace).ok());
      ASSERT_EQ(got, want) << kind.text();
      std::fill(got.begin(), got.end(), uint8_t{0});
      ASSERT_TRUE(resized_crop(*whole, params, HwcBytes{got.data()}, workspace).ok());
      ASSERT_EQ(got, want);

      std::vector<float> floats(want.size());
      std::vector<float> wanted_floats(want.size());
      ASSERT_TRUE(decode_resized_crop(data, params, ChwFloats{floats.data(), &table}, workspace).ok());
      to_float_chw(wanted, table, false, wanted_floats.data());
      ASSERT_EQ(0, std::memcmp(floats.data(), wanted_floats.data(), floats.size() * sizeof(float)));

      std::vector<uint8_t> planes(want.size());
      ASSERT_TRUE(decode_resized_crop(data, params, ChwBytes{got.data()}, workspace).ok());
      to_bytes_chw(wanted, false, planes.data());
      ASSERT_EQ(got, planes);
    }
  }
}

TEST(ResizedCropTest, ASteadyStreamAllocatesNothingOfOurs) {
  std::mt19937 random(12);
  auto data = make_jpeg({300, 200}, {}, random);
  Workspace workspace;
  std::vector<uint8_t> out(3 * 64 * 64);
  ResizedCrop params{.crop = {10, 10, 250, 180}, .size = {64, 64}};
  ASSERT_TRUE(decode_resized_crop(data, params, HwcBytes{out.data()}, workspace).ok());
  size_t held = workspace.bytes();
  for (int i = 0; i < 20; ++i) {
    params.crop.width = 100 + 7 * i;
    ASSERT_TRUE(decode_resized_crop(data, params, HwcBytes{out.data()}, workspace).ok());
  }
  EXPECT_EQ(workspace.bytes(), held);
  workspace.trim(0);
  EXPECT_EQ(workspace.bytes(), 0U);
}

TEST(ResizedCropTest, BoxesThatDoNotFitAreRefused) {
  std::mt19937 random(13);
  auto data = make_jpeg({30, 20}, {}, random);
  Workspace workspace;
  uint8_t out[3 * 8 * 8];
  auto refused = [&](const ResizedCrop& params) {
    Status status = decode_resized_crop(data, params, HwcBytes{out}, workspace);
    return !status.ok() && status.error().code == Code::kInvalid;
  };
  EXPECT_TRUE(refused({.crop = {0, 0, 31, 20}, .size = {8, 8}}));
  EXPECT_TRUE(refused({.crop = {-1, 0, 4, 4}, .size = {8, 8}}));
  EXPECT_TRUE(refused({.crop = {0, 0, 0, 4}, .size = {8, 8}}));
  EXPECT_TRUE(refused({.crop = {0, 0, 4, 4}, .size = {0, 8}}));
  EXPECT_TRUE(refused({.crop = {0, 0, 4, 4}, .size = {8, 8}, .window = Box{1, 0, 8, 8}}));
}

TEST(ResizeTest, SizesAndPlacesAreTorchvisions) {
  EXPECT_EQ(resized_size({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(resized_size({375, 500}, 256), (Size{256, 341}));
  EXPECT_EQ(resized_size({10, 10}, 7), (Size{7, 7}));
  EXPECT_EQ(center_crop_box({341, 256}, {224, 224}), (Box{58, 16, 224, 224}));
  EXPECT_EQ(center_crop_box({227, 229}, {224, 224}), (Box{2, 2, 224, 224}));
  EXPECT_EQ(center_crop_box({221, 300}, {224, 224}), (Box{-1, 38, 224, 224}));
}

TEST(ResizeTest, PassOrderIsTheInstalledPillows) {
  EXPECT_FALSE(vertical_first(PassOrder::kPillow12, {120, 300}, {224, 224}));
  EXPECT_TRUE(vertical_first(PassOrder::kPillow13, {120, 300}, {224, 224}));
  EXPECT_FALSE(vertical_first(PassOrder::kPillow13, {244, 264}, {224, 224}));  // 40 is not more than twice 20
  EXPECT_TRUE(vertical_first(PassOrder::kPillow13, {244, 265}, {224, 224}));
  EXPECT_FALSE(vertical_first(PassOrder::kPillow13, {100, 224}, {224, 224}));
  EXPECT_EQ(pass_order_of(12), PassOrder::kPillow12);
  EXPECT_EQ(pass_order_of(13), PassOrder::kPillow13);
}

}  // namespace
}  // namespace stoker::image
