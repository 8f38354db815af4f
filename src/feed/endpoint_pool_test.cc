// SPDX-License-Identifier: Apache-2.0
#include "feed/endpoint_pool.h"

#include <gtest/gtest.h>

#include <random>

namespace stoker::feed {
namespace {
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSilent = 1000 * kMs;

EndpointPool::Wanted rows(uint32_t count) { return {count, nullptr, false, 0, false}; }

// The rule in plain words, over all endpoints.
EndpointId slowly_best(const EndpointPool& pool, EndpointId endpoints, uint32_t rows) {
  double known = pool.quickest_hand() > 0 ? pool.quickest_hand() : 1e-9;
  EndpointId best = 0;
  double best_ns = 0;
  for (EndpointId id = 1; id <= endpoints; ++id) {
    const auto* one = pool.find(id);
    if (!one || one->draining || one->asked.size() >= one->parallel + 1) continue;
    double speed = one->rows_per_ns() > 0 ? one->rows_per_ns() : known * one->parallel;
    double ns = static_cast<double>(one->outstanding_rows + rows) / speed;
    if (best == 0 || ns < best_ns) best = id, best_ns = ns;
  }
  return best;
}

TEST(EndpointPool, ChoiceIsTheOneThatWouldFinishFirst) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    auto roll = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    constexpr EndpointId kEndpoints = 8;
    EndpointPool pool(4);
    struct Owed {
      EndpointId id;
      RangeId range;
      uint32_t rows;
      int64_t asked_ns;
    };
    std::vector<Owed> owed;
    for (EndpointId id = 1; id <= kEndpoints; ++id) pool.joined(id, true, 1 + roll(3), 0);
    for (uint32_t step = 1; step < 500; ++step) {
      int64_t now = step * kMs;
      uint32_t count = 1 + roll(8);
      EndpointId best = pool.best(rows(count), kSilent, now);
      ASSERT_EQ(best, slowly_best(pool, kEndpoints, count));
      ASSERT_EQ(best != 0, pool.has_room());
      if (best != 0) {
        pool.ask(best, {step, 0}, count, now);
        owed.push_back({best, {step, 0}, count, now});
      }
      if (roll(100) == 0) pool.draining(1 + roll(kEndpoints));
      if (roll(2) == 0 && !owed.empty()) {
        size_t which = roll(static_cast<unsigned>(owed.size()));
        Owed one = owed[which];
        owed.erase(owed.begin() + static_cast<ptrdiff_t>(which));
        pool.settle(one.id, one.range, one.rows, one.asked_ns, now + 1, true);
      }
    }
  }
}

TEST(EndpointPool, SilentOnesAreAskedOnlyWhenThereIsNobodyElse) {
  EndpointPool pool(4);
  pool.joined(1, false, 4, 0);
  pool.ask(1, {0, 0}, 1, 0);
  EXPECT_EQ(pool.best(rows(1), kSilent, 2 * kSilent), 1u);
  pool.joined(2, false, 1, 0);
  EXPECT_EQ(pool.best(rows(1), kSilent, 2 * kSilent), 2u);
  EXPECT_EQ(pool.best({1, nullptr, false, 2, false}, kSilent, 2 * kSilent), 0u);  // no hedge of what 2 has
  pool.settle(1, {0, 0}, 1, 0, 2 * kSilent, true);
  EXPECT_EQ(pool.best({1, nullptr, false, 2, false}, kSilent, 2 * kSilent), 1u);
}

TEST(EndpointPool, WhoFailedIsAskedAgainOnlyWhenAllowed) {
  EndpointPool pool(4);
  pool.joined(1, false, 1, 0);
  std::set<EndpointId> failed_at{1};
  EXPECT_EQ(pool.best({1, &failed_at, false, 0, false}, kSilent, 0), 0u);
  EXPECT_EQ(pool.best({1, &failed_at, true, 0, false}, kSilent, 0), 1u);
  pool.joined(2, false, 1, 0);
  EXPECT_EQ(pool.best({1, &failed_at, true, 0, false}, kSilent, 0), 2u);
}

TEST(EndpointPool, WhatOneOwedComesBackLowestFirst) {
  EndpointPool pool(4);
  pool.joined(1, false, 4, 0);
  EXPECT_TRUE(pool.has_idle());
  pool.ask(1, {1, 0}, 1, 0);
  pool.ask(1, {0, 4}, 1, 5);
  pool.ask(1, {0, 0}, 1, 7);
  EXPECT_FALSE(pool.has_idle());
  EXPECT_EQ(pool.remove(1), (std::vector<RangeId>{{0, 0}, {0, 4}, {1, 0}}));
  EXPECT_FALSE(pool.has_room());
}

}  // namespace
}  // namespace stoker::feed
