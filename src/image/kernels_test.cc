// SPDX-License-Identifier: Apache-2.0
// Every instruction set gives the scalar kernels' bits.
#include "image/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "image/buffer.h"
#include "image/isa_test.h"

namespace stoker::image {
namespace {

class KernelsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    kernels_ = kernels_of(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "this processor lacks it";
  }
  std::vector<uint8_t> bytes(size_t count) {
    std::vector<uint8_t> out(count);
    // Extremes are where sums overflow.
    int kind = int(random_() % 4);
    for (uint8_t& byte : out)
      byte = kind == 0 ? 255 : kind == 1 ? uint8_t(random_() % 2 * 255) : uint8_t(random_());
    return out;
  }
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  const Kernels* kernels_ = nullptr;
  std::mt19937 random_{7};
};

std::vector<std::vector<uint8_t>> horizontal_with(const Kernels& kernels, const Axis& axis,
                                                  const std::vector<std::vector<uint8_t>>& rows) {
  Buffer table;
  uint8_t* memory = table.grow(kernels.table_bytes(axis.view()) + 1);
  kernels.make_table(axis.view(), memory);
  std::vector<std::vector<uint8_t>> out(rows.size(), std::vector<uint8_t>(3 * size_t(axis.size()) + kSlack));
  std::vector<const uint8_t*> from;
  std::vector<uint8_t*> to;
  for (size_t r = 0; r < rows.size(); ++r) {
    from.push_back(rows[r].data());
    to.push_back(out[r].data());
  }
  kernels.horizontal(axis.view(), memory, from.data(), to.data(), int(rows.size()));
  for (auto& row : out) row.resize(3 * size_t(axis.size()));
  return out;
}

Resampling any_resampling(int round) {
  const Filter filters[] = {Filter::kBilinear, Filter::kBilinear, Filter::kBicubic, Filter::kNearest};
  return {filters[round % 4], round % 3 == 0};
}

TEST_P(KernelsTest, HorizontalIsTheScalarOnes) {
  for (int round = 0; round < 600; ++round) {
    int in = round % 5 == 0 ? between(1, 4000) : between(1, 500);
    int out = between(1, 300);
    int begin = between(0, out - 1);
    Axis axis;
    axis.set(in, out, begin, between(begin + 1, out), any_resampling(round));
    size_t width = size_t(axis.source_end() - axis.source_begin());
    std::vector<std::vector<uint8_t>> rows;
    for (int r = between(1, kRowBatch); r > 0; --r) {
      rows.push_back(bytes(3 * width));
      rows.back().resize(3 * width + kSlack, uint8_t(random_()));
    }
    ASSERT_EQ(horizontal_with(*kernels_, axis, rows), horizontal_with(kScalarKernels, axis, rows))
        << in << " to " << out;
  }
}

TEST_P(KernelsTest, VerticalIsTheScalarOnes) {
  for (int round = 0; round < 600; ++round) {
    Axis axis;
    int in = round % 20 == 0 ? between(1, 3000) : between(1, 300);
    axis.set(in, between(1, 200), 0, 1, any_resampling(round));
    size_t width = size_t(between(1, 700));
    int count = axis.count(0);
    std::vector<std::vector<uint8_t>> rows;
    std::vector<const uint8_t*> from;
    for (int t = 0; t < count; ++t) {
      rows.push_back(bytes(width));
      rows.back().resize(width + kSlack);
    }
    for (int t = 0; t < (count + 3) / 4 * 4; ++t) from.push_back(rows[size_t(std::min(t, count - 1))].data());
    std::vector<uint8_t> got(width + kSlack);
    std::vector<uint8_t> want(width + kSlack);
    kernels_->vertical(from.data(), axis.weights(0), count, width, got.data());
    kScalarKernels.vertical(from.data(), axis.weights(0), count, width, want.data());
    got.resize(width);
    want.resize(width);
    ASSERT_EQ(got, want) << in << " rows, " << count << " taps";
  }
}

TEST_P(KernelsTest, ConversionsAreTheScalarOnesAndStayInTheirRows) {
  const MeanStd imagenet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  const NormalizeTable tables[] = {{ToFloat::kMultiply, imagenet},
                                   {ToFloat::kDivide, imagenet},
                                   {ToFloat::kMultiply, {}},
                                   {ToFloat::kDivide, {}},
                                   {ToFloat::kUnscaled, imagenet},
                                   {ToFloat::kUnscaled, {}},
                                   {ToFloat::kMultiply, MeanStd{{0.1, 1e-9, 0.3}, {1e-30, 3e38, 0.7}}}};
  for (int width = 1; width < 120; ++width) {
    for (bool mirror : {false, true}) {
      // Exactly as long as the row: the sanitizer's build sees a byte too far.
      auto row = std::make_unique<uint8_t[]>(3 * size_t(width));
      auto filled = bytes(3 * size_t(width));
      std::copy(filled.begin(), filled.end(), row.get());
      for (const NormalizeTable& table : tables) {
        std::vector<float> got(3 * size_t(width) + 1, -77);
        std::vector<float> want(3 * size_t(width) + 1, -77);
        float* const to[3] = {got.data(), got.data() + width, got.data() + 2 * width};
        float* const expected[3] = {want.data(), want.data() + width, want.data() + 2 * width};
        kernels_->to_floats(row.get(), width, mirror, table.map(), to);
        kScalarKernels.to_floats(row.get(), width, mirror, table.map(), expected);
        ASSERT_EQ(0, std::memcmp(got.data(), want.data(), got.size() * sizeof(float))) << width;
      }
      std::vector<uint8_t> got(3 * size_t(width) + 1, 77);
      std::vector<uint8_t> want(3 * size_t(width) + 1, 77);
      uint8_t* const to[3] = {got.data(), got.data() + width, got.data() + 2 * width};
      uint8_t* const expected[3] = {want.data(), want.data() + width, want.data() + 2 * width};
      kernels_->to_planes(row.get(), width, mirror, to);
      kScalarKernels.to_planes(row.get(), width, mirror, expected);
      ASSERT_EQ(got, want) << width;
      kernels_->mirror(row.get(), width, got.data());
      kScalarKernels.mirror(row.get(), width, want.data());
      ASSERT_EQ(got, want) << width;
    }
  }
}

TEST(NormalizeTableTest, EveryByteHasItsOwnRounding) {
  NormalizeTable multiply(ToFloat::kMultiply, {});
  NormalizeTable divide(ToFloat::kDivide, {});
  EXPECT_TRUE(NormalizeTable(ToFloat::kMultiply, MeanStd{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}})
                  .map()
                  .by_reciprocal);
  int differ = 0;
  for (int value = 0; value < 256; ++value) {
    EXPECT_EQ(multiply.at(0, uint8_t(value)), float(value) * float(1.0 / 255));
    EXPECT_EQ(divide.at(0, uint8_t(value)), float(value) / 255.0F);
    differ += multiply.at(0, uint8_t(value)) != divide.at(0, uint8_t(value));
  }
  EXPECT_EQ(differ, 126);
}

INSTANTIATE_TEST_SUITE_P(All, KernelsTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512), isa_name);

}  // namespace
}  // namespace stoker::image
