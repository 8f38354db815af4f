// SPDX-License-Identifier: Apache-2.0
#include "pipeline/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace stoker::pipeline {
namespace {

std::vector<uint64_t> shuffled(uint64_t n, uint64_t key) {
  Bijection bijection(n, key);
  std::vector<uint64_t> out(n);
  for (uint64_t i = 0; i < n; ++i) out[i] = bijection(i);
  return out;
}

TEST(Bijection, ManyAtOnceAreTheSameAsOneByOne) {
  for (uint64_t n : {uint64_t{1}, uint64_t{5}, uint64_t{65}, uint64_t{4097}, uint64_t{1} << 40}) {
    Bijection shuffle(n, 0x9a3f);
    for (uint64_t first : {uint64_t{0}, n / 2}) {
      uint64_t count = std::min<uint64_t>(n - first, 300);
      std::vector<uint64_t> out(count + 1, 77);
      shuffle.of_range(first, count, out.data());
      for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(out[i], shuffle(first + i)) << n;
      EXPECT_EQ(out[count], 77U);
    }
  }
}

TEST(Bijection, HitsEveryItemOnceForManySizes) {
  std::vector<uint64_t> sizes;
  for (uint64_t n = 1; n <= 300; ++n) sizes.push_back(n);
  for (uint64_t n : {1023, 1024, 1025, 4095, 4096, 4097, 50000, 65537}) sizes.push_back(n);
  for (uint64_t n : sizes) {
    std::vector<bool> seen(n);
    Bijection bijection(n, order_key(n, 3));
    for (uint64_t i = 0; i < n; ++i) {
      uint64_t item = bijection(i);
      ASSERT_LT(item, n);
      ASSERT_FALSE(seen[item]) << "n " << n << " item " << item;
      seen[item] = true;
      ASSERT_EQ(bijection.inverse(item), i);
    }
  }
}

TEST(Bijection, TakesSizesUpToTheLargest) {
  for (uint64_t n : {uint64_t{1} << 40, (uint64_t{1} << 63) + 12345, ~uint64_t{0}}) {
    Bijection bijection(n, 42);
    for (uint64_t i : {uint64_t{0}, uint64_t{1}, n / 2, n - 1}) {
      EXPECT_LT(bijection(i), n);
      EXPECT_EQ(bijection.inverse(bijection(i)), i);
    }
  }
}

// The same bytes on every machine and in every later version: a change of these numbers is a new order id.
TEST(Bijection, IsTheOneOfTheFormatPage) {
  EXPECT_EQ(order_key(0, 0), order_key(0, 0));
  std::vector<uint64_t> first = shuffled(10, order_key(0, 0));
  EXPECT_EQ(std::set<uint64_t>(first.begin(), first.end()).size(), 10u);
  EXPECT_EQ(first, (std::vector<uint64_t>{3, 5, 0, 2, 8, 4, 9, 6, 7, 1}));
}

// Every item at every place equally often, over keys: chi-square of a 16 x 16 table.
TEST(Bijection, PutsItemsAtAllPlacesEquallyOften) {
  constexpr int kN = 16, kKeys = 16000;
  std::vector<int> table(kN * kN);
  for (int key = 0; key < kKeys; ++key) {
    std::vector<uint64_t> items = shuffled(kN, order_key(7, static_cast<uint64_t>(key)));
    for (int i = 0; i < kN; ++i) ++table[static_cast<size_t>(i * kN) + items[static_cast<size_t>(i)]];
  }
  double expected = double{kKeys} / kN, chi = 0;
  for (int count : table) chi += (count - expected) * (count - expected) / expected;
  double freedom = (kN - 1) * (kN - 1);
  EXPECT_LT(std::abs(chi - freedom), 5 * std::sqrt(2 * freedom)) << chi;
}

// Neighbours do not stay neighbours, and what came before says nothing of what comes: rank correlation and
// pairs.
TEST(Bijection, LeavesNoTraceOfNeighbours) {
  constexpr uint64_t kN = 20000;
  std::vector<uint64_t> items = shuffled(kN, order_key(1, 0));
  double mean = (kN - 1) / 2.0, variance = (double{kN} * kN - 1) / 12, with_place = 0, with_next = 0;
  int adjacent = 0;
  for (uint64_t i = 0; i + 1 < kN; ++i) {
    double here = static_cast<double>(items[i]) - mean, next = static_cast<double>(items[i + 1]) - mean;
    with_place += here * (static_cast<double>(i) - mean);
    with_next += here * next;
    adjacent += here - next == 1 || next - here == 1;
  }
  double limit = 5 / std::sqrt(double{kN});
  EXPECT_LT(std::abs(with_place / kN / variance), limit);
  EXPECT_LT(std::abs(with_next / kN / variance), limit);
  EXPECT_LE(adjacent, 14);  // Poisson of mean 2
}

TEST(Bijection, NeighbouringSeedsAndEpochsAreUnrelated) {
  constexpr uint64_t kN = 10000;
  std::vector<std::vector<uint64_t>> orders;
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (uint64_t epoch = 0; epoch < 4; ++epoch) orders.push_back(shuffled(kN, order_key(seed, epoch)));
  for (size_t a = 0; a < orders.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      int same = 0;
      for (uint64_t i = 0; i < kN; ++i) same += orders[a][i] == orders[b][i];
      EXPECT_LE(same, 10) << a << " " << b;  // Poisson of mean 1
    }
  }
}

TEST(Order, GivesRangesAcrossEpochs) {
  for (OrderKind kind : {OrderKind::kSequential, OrderKind::kFull}) {
    Order order(kind, 7, 5);
    std::vector<uint64_t> items(30);
    order.items_at(4, items.size(), items.data());
    for (uint64_t k = 0; k < items.size(); ++k) EXPECT_EQ(items[k], order.item_at(4 + k));
  }
  EXPECT_EQ(Order(OrderKind::kSequential, 7, 5).item_at(15), 1u);
}

TEST(BatchPlan, CutsEpochsIntoBatches) {
  using Range = BatchPlan::Range;
  BatchPlan keep{10, 4, false}, drop{10, 4, true}, exact{8, 4, true}, empty{0, 4, false};
  EXPECT_EQ(keep.batches(), 3u);
  EXPECT_EQ(drop.batches(), 2u);
  EXPECT_EQ(exact.batches(), 2u);
  EXPECT_EQ(empty.batches(), 0u);
  EXPECT_EQ(keep.batch(0, 0), (Range{0, 4}));
  EXPECT_EQ(keep.batch(2, 2), (Range{28, 2}));
  EXPECT_EQ(drop.batch(1, 1), (Range{14, 4}));
}

}  // namespace
}  // namespace stoker::pipeline
