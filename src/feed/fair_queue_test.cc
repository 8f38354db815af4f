// SPDX-License-Identifier: Apache-2.0
#include "feed/fair_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace stoker::feed {
namespace {

struct Waiting {
  std::shared_ptr<std::string> session;
  uint64_t batch = 0, arrival = 0;
};
using Queue = FairQueue<Waiting>;

class FairQueueTest : public testing::Test {
 protected:
  std::shared_ptr<Waiting> add(const std::shared_ptr<std::string>& session, uint64_t batch) {
    auto job = std::make_shared<Waiting>(Waiting{session, batch, arrivals_++});
    queue_.insert(job);
    return job;
  }
  // "name batch" of the next ones.
  std::vector<std::string> next(size_t count) {
    std::vector<std::string> taken;
    while (taken.size() < count) {
      auto job = queue_.take([](const Waiting&) { return true; });
      if (!job) break;
      taken.push_back(*job->session + " " + std::to_string(job->batch));
    }
    return taken;
  }
  static std::shared_ptr<std::string> session(const std::string& name) {
    return std::make_shared<std::string>(name);
  }

  Queue queue_;
  uint64_t arrivals_ = 0;
};

TEST_F(FairQueueTest, OneSessionGetsItsLowestBatchFirst) {
  auto a = session("a");
  for (uint64_t batch : {3, 1, 2}) add(a, batch);
  EXPECT_EQ(next(4), (std::vector<std::string>{"a 1", "a 2", "a 3"}));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(FairQueueTest, ASessionFarAheadGetsEveryOtherTurnBesideOneThatBegins) {
  auto ahead = session("ahead"), begins = session("begins");
  for (uint64_t i = 0; i < 100; ++i) add(ahead, 1'000'000 + i), add(begins, i);
  auto taken = next(100);
  auto of_ahead =
      std::count_if(taken.begin(), taken.end(), [](auto& one) { return one.starts_with("ahead"); });
  EXPECT_GE(of_ahead, 49);
  EXPECT_LE(of_ahead, 51);
}

TEST_F(FairQueueTest, ASessionThatAsksForOneAtATimeIsNotPassedOver) {
  auto ahead = session("ahead"), begins = session("begins");
  for (uint64_t i = 0; i < 1000; ++i) add(begins, i);
  for (uint64_t i = 0; i < 100; ++i) {
    auto asked = add(ahead, 1'000'000 + i);
    auto taken = next(4);
    EXPECT_EQ(std::count(taken.begin(), taken.end(), "ahead " + std::to_string(1'000'000 + i)), 1);
  }
}

TEST_F(FairQueueTest, TheLowestBatchOfAllWaitsAtMostOneTurn) {
  std::vector<std::shared_ptr<std::string>> many;
  for (int i = 0; i < 50; ++i) many.push_back(session("many"));
  auto late = session("late");
  for (uint64_t i = 0; i < 500; ++i) add(many[i % 50], 100 + i);
  next(7);
  add(late, 3);
  auto taken = next(2);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), "late 3"), 1);
}

TEST_F(FairQueueTest, WhoMayNotGoHoldsNobodyUpAndKeepsItsTurn) {
  auto stalled = session("stalled"), other = session("other");
  for (uint64_t i = 0; i < 4; ++i) add(stalled, i), add(other, 10 + i);
  for (int i = 0; i < 4; ++i) {
    auto job = queue_.take([&](const Waiting& one) { return one.session != stalled; });
    ASSERT_NE(job, nullptr);
    EXPECT_EQ(job->session, other);
  }
  EXPECT_EQ(queue_.take([&](const Waiting& one) { return one.session != stalled; }), nullptr);
  EXPECT_EQ(next(1), std::vector<std::string>{"stalled 0"});
}

TEST_F(FairQueueTest, WhatIsErasedDoesNotWait) {
  auto a = session("a");
  auto first = add(a, 1), second = add(a, 2);
  EXPECT_TRUE(queue_.erase(first));
  EXPECT_FALSE(queue_.erase(first));
  EXPECT_EQ(queue_.size(), 1U);
  EXPECT_EQ(queue_.take_all(), std::vector{second});
  EXPECT_TRUE(queue_.empty());
  EXPECT_FALSE(queue_.erase(second));
}

}  // namespace
}  // namespace stoker::feed
