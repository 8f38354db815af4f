// SPDX-License-Identifier: Apache-2.0
#include "pipeline/block_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace stoker::pipeline {
namespace {

std::vector<uint64_t> epoch_of(BlockOrder& order, uint64_t epoch) {
  std::vector<uint64_t> items(order.items());
  order.items_at(epoch * order.items(), order.items(), items.data());
  return items;
}

TEST(BlockOrder, GivesEachItemOnceAnEpochAndFewShardsAtATime) {
  std::vector<uint64_t> starts{0, 10, 35, 36, 60, 100, 117};
  for (uint64_t window : {1, 2, 3, 7, 100}) {
    auto order = BlockOrder::make(starts, window, 42);
    ASSERT_TRUE(order.ok());
    for (uint64_t epoch : {0, 1, 9}) {
      std::vector<uint64_t> items = epoch_of(*order, epoch), sorted = items;
      std::sort(sorted.begin(), sorted.end());
      for (uint64_t i = 0; i < sorted.size(); ++i) ASSERT_EQ(sorted[i], i);
      // Shards come in runs: a shard that was left does not come back.
      std::set<size_t> over, open;
      for (uint64_t item : items) {
        auto shard =
            static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), item) - starts.begin() - 1);
        EXPECT_FALSE(over.count(shard));
        if (open.insert(shard).second && open.size() > window) {
          over.insert(open.begin(), open.end());
          over.erase(shard);
          open = {shard};
        }
      }
    }
  }
}

TEST(BlockOrder, PassesOverShardsWithoutItems) {
  auto order = BlockOrder::make({0, 0, 3, 3, 3, 5, 5}, 2, 1);
  std::vector<uint64_t> items = epoch_of(*order, 0);
  std::sort(items.begin(), items.end());
  EXPECT_THAT(items, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(BlockOrder, IsAFunctionOfThePosition) {
  auto order = BlockOrder::make({0, 5, 9, 20}, 2, 7), again = BlockOrder::make({0, 5, 9, 20}, 2, 7);
  auto other = BlockOrder::make({0, 5, 9, 20}, 2, 8);
  std::vector<uint64_t> range(50), one;
  order->items_at(3, 50, range.data());
  for (uint64_t p = 53; p-- > 3;) one.insert(one.begin(), again->item_at(p));
  EXPECT_EQ(range, one);
  EXPECT_NE(epoch_of(*order, 0), epoch_of(*order, 1));
  EXPECT_NE(epoch_of(*order, 0), epoch_of(*other, 0));
}

TEST(BlockOrder, RefusesWhatIsNoListOfShards) {
  EXPECT_FALSE(BlockOrder::make({0}, 1, 0).ok());
  EXPECT_FALSE(BlockOrder::make({0, 0}, 1, 0).ok());
  EXPECT_FALSE(BlockOrder::make({0, 5, 3}, 1, 0).ok());
  EXPECT_FALSE(BlockOrder::make({1, 5}, 1, 0).ok());
  EXPECT_FALSE(BlockOrder::make({0, 5}, 0, 0).ok());
}

}  // namespace
}  // namespace stoker::pipeline
