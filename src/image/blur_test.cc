// SPDX-License-Identifier: Apache-2.0
// Against a plain two-dimensional sum, and every instruction set against the scalar kernels; against torch in
// python/stoker/data/transforms_test.py.
#include "image/blur.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "image/blur_kernels.h"
#include "image/border.h"

namespace stoker::image {
namespace {

TEST(GaussianWeights, AddUpToOneAndFall) {
  for (int side : {1, 3, 11, 127}) {
    for (double sigma : {1e-3, 0.1, 1.0, 40.0}) {
      BlurWeights weights = cut(gaussian(side, sigma));
      double sum = weights.at[0];
      for (int t = 1; t <= weights.radius; ++t) {
        EXPECT_LE(weights.at[t], weights.at[t - 1]);
        sum += 2 * double(weights.at[t]);
      }
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
  EXPECT_EQ(cut(gaussian(11, 0.1)).radius, 0);
  EXPECT_EQ(cut(gaussian(11, 2)).radius, 5);
}

TEST(GaussianWeights, OfTwoBlursAreTheirConvolution) {
  HalfKernel both = convolved({0.5, 0.25}, {0.6, 0.1, 0.1});
  const double wanted[] = {0.35, 0.225, 0.075, 0.025};
  ASSERT_EQ(both.size(), 4u);
  for (size_t t = 0; t < 4; ++t) EXPECT_NEAR(both[t], wanted[t], 1e-15);
}

// A chain in one pass, also where its reach is several times the picture's small parts.
TEST(GaussianBlur, OnceDoesWhatAChainDoes) {
  std::mt19937 random(5);
  Workspace workspace;
  Size size{31, 27};
  std::vector<float> chain(size_t(size.width) * size_t(size.height));
  for (float& value : chain) value = float(random() % 1000) / 999;
  std::vector<float> once = chain;
  HalfKernel all{1};
  for (double sigma : {0.5, 1.1, 1.9, 1.6, 0.2}) {
    HalfKernel one = gaussian(11, sigma);
    ASSERT_TRUE(gaussian_blur(chain.data(), size, {cut(one), cut(one)}, workspace).ok());
    all = convolved(all, one);
  }
  ASSERT_TRUE(gaussian_blur(once.data(), size, {cut(all), cut(all)}, workspace).ok());
  for (size_t i = 0; i < once.size(); ++i) ASSERT_NEAR(once[i], chain[i], 1e-6);
}

TEST(GaussianBlur, IsTheSumOverTheKernel) {
  std::mt19937 random(3);
  Workspace workspace;
  for (Size size : {Size{40, 30}, Size{9, 6}, Size{133, 12}}) {
    std::vector<float> plane(size_t(size.width) * size_t(size.height));
    for (float& value : plane) value = float(random() % 1000) / 999;
    GaussianKernel kernel{cut(gaussian(11, 1.7)), cut(gaussian(5, 0.9))};
    std::vector<float> blurred = plane;
    ASSERT_TRUE(gaussian_blur(blurred.data(), size, kernel, workspace).ok());
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        double sum = 0;
        for (int v = -5; v <= 5; ++v) {
          for (int u = -2; u <= 2; ++u) {
            int line = border_index(Border::kReflect, y + v, size.height);
            int column = border_index(Border::kReflect, x + u, size.width);
            sum += double(kernel.down.at[std::abs(v)]) * double(kernel.across.at[std::abs(u)]) *
                   double(plane[size_t(line * size.width + column)]);
          }
        }
        ASSERT_NEAR(blurred[size_t(y * size.width + x)], sum, 5e-7);
      }
    }
  }
}

TEST(GaussianBlur, RefusesAPictureThatIsSmallerThanItsReflection) {
  std::vector<float> plane(5 * 20);
  Workspace workspace;
  GaussianKernel kernel{cut(gaussian(11, 1)), cut(gaussian(3, 1))};
  EXPECT_FALSE(gaussian_blur(plane.data(), {20, 5}, kernel, workspace).ok());
}

TEST(BlurKernels, AllInstructionSetsGiveTheSameBits) {
  std::mt19937 random(7);
  auto noise = [&](size_t count) {
    std::vector<float> out(count);
    for (float& value : out) value = float(random()) / 7e6F - 150;
    return out;
  };
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (kernels_of(isa) == nullptr) continue;
    const BlurKernels& kernels = blur_kernels(isa);
    for (int count = 1; count < 100; count += 3) {
      for (int radius : {0, 1, 5, 63}) {
        BlurWeights weights = cut(gaussian(2 * radius + 1, 30));
        std::vector<float> in = noise(size_t(count + 6 * radius + kBlurSlack));
        auto a = std::vector<float>(size_t(count + kBlurSlack)), b = a;
        kernels.across(in.data() + 3 * radius, count, 3, weights.at, radius, a.data());
        kScalarBlur.across(in.data() + 3 * radius, count, 3, weights.at, radius, b.data());
        a.resize(size_t(count)), b.resize(size_t(count));
        ASSERT_EQ(a, b);
        std::vector<const float*> rows;
        for (int t = 0; t < 2 * radius + 2; ++t) rows.push_back(in.data() + t);
        auto exact = std::vector<float>(size_t(2 * count)), wanted = exact;
        float* exact_rows[] = {exact.data(), exact.data() + count};
        float* wanted_rows[] = {wanted.data(), wanted.data() + count};
        kernels.down(rows.data(), count, weights.at, radius, exact_rows);
        kScalarBlur.down(rows.data(), count, weights.at, radius, wanted_rows);
        ASSERT_EQ(exact, wanted);
      }
      std::vector<float> in = noise(size_t(count + kBlurSlack));
      for (size_t i = 0; i < in.size(); i += 5) in[i] = std::floor(in[i]) + 0.5F;
      std::vector<uint8_t> bytes(size_t(count), 1), wanted = bytes;
      kernels.to_bytes(in.data(), count, bytes.data());
      kScalarBlur.to_bytes(in.data(), count, wanted.data());
      ASSERT_EQ(bytes, wanted);
      std::vector<float> floats(size_t(count + kBlurSlack)), same = floats;
      kernels.to_floats(bytes.data(), count, floats.data());
      kScalarBlur.to_floats(bytes.data(), count, same.data());
      floats.resize(size_t(count)), same.resize(size_t(count));
      ASSERT_EQ(floats, same);
    }
  }
}

}  // namespace
}  // namespace stoker::image
