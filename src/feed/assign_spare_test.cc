// SPDX-License-Identifier: Apache-2.0
// Spare endpoints: lent what no other has room for, from far ahead, and never waited for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "feed/assign.h"

namespace stoker::feed {
namespace {
constexpr int64_t kMs = 1'000'000;
constexpr EndpointId kHelper = 1, kSpare = 2;

AssignOptions options() {
  AssignOptions options;
  options.request_rows = 1;
  options.window_bytes = 1 << 30;
  return options;
}

// One helper and one spare worker that make a row in so many ms each (0: none), and a consumer that takes
// whatever is there.
struct Training {
  Training(int64_t helper_ms, int64_t spare_ms, int rows) : assigner(options(), 0), rows_(rows) {
    assigner.joined(kHelper, false, 1, 0);
    assigner.spare_joined(kSpare, 1, 0);
    ms_[kHelper] = helper_ms;
    ms_[kSpare] = spare_ms;
    for (int i = 0; i < rows; ++i) assigner.push(1, 1);
  }

  // Until everything is delivered, or so long.
  int64_t go(int64_t most_ms) {
    for (const int64_t until = now + most_ms * kMs; now < until && out < rows_; now += kMs) {
      decide();
      for (EndpointId id : {kHelper, kSpare}) work(id);
      while (out < rows_ && assigner.done(static_cast<BatchId>(out)))
        assigner.delivered(static_cast<BatchId>(out++));
    }
    return now / kMs;
  }

  size_t decide() {  // how many were cancelled; what has not begun is left
    Decisions decisions = assigner.decide(now);
    for (const Ask& ask : decisions.ask) {
      queues[ask.endpoint].push_back(ask.range);
      if (ask.endpoint == kHelper) helped.push_back(ask.range.batch);
    }
    for (const Ask& cancel : decisions.cancel) {
      auto& queue = queues[cancel.endpoint];
      auto at = std::find(queue.begin(), queue.end(), cancel.range);
      if (at == queue.end() || (at == queue.begin() && began(cancel.endpoint) >= 0)) continue;
      queue.erase(at);
      assigner.cancelled(cancel.range, cancel.endpoint, now);
    }
    return decisions.cancel.size();
  }

  Assigner assigner;
  int64_t now = 0;
  int out = 0;
  std::map<EndpointId, std::vector<RangeId>> queues;
  std::map<EndpointId, int> made;
  std::vector<BatchId> helped;  // in the order in which the helper was asked
  std::map<EndpointId, int64_t> ms_;

 private:
  int64_t& began(EndpointId id) { return began_.try_emplace(id, -1).first->second; }
  void work(EndpointId id) {
    auto& queue = queues[id];
    auto& began = this->began(id);
    if (ms_[id] == 0) return;
    if (began >= 0 && now - began >= ms_[id] * kMs) {
      made[id] += assigner.answered(queue.front(), id, now) == Assigner::Verdict::kFirst;
      queue.erase(queue.begin());
      began = -1;
    }
    if (began < 0 && !queue.empty()) began = now;
  }

  const int rows_;
  std::map<EndpointId, int64_t> began_;
};

TEST(AssignSpare, ItAddsWhatItCanMakeToASlowHelper) {
  Training run(10, 20, 600);
  const int64_t took_ms = run.go(10'000);
  EXPECT_EQ(run.out, 600);
  EXPECT_GT(run.made[kSpare], 150);  // of 200 at best
  EXPECT_LT(took_ms, 4700);          // 6000 without it, 4000 at best
  EXPECT_EQ(run.assigner.counts().spare_rows, static_cast<uint64_t>(run.made[kSpare]));
  EXPECT_EQ(run.assigner.counts().hedged, 0U);
  for (size_t i = 1; i < run.helped.size(); ++i) EXPECT_LT(run.helped[i - 1], run.helped[i]);
}

// Whatever the spare worker does, the helper is asked for the same in the same order, but for what it has
// made.
TEST(AssignSpare, OneThatNeverAnswersCostsNothing) {
  Training alone(10, 0, 300), stuck(10, 0, 300);
  alone.assigner.let_spare(false);
  const int64_t took_ms = alone.go(10'000);
  EXPECT_EQ(alone.assigner.counts().lent, 0U);
  EXPECT_EQ(stuck.go(10'000), took_ms);
  EXPECT_EQ(stuck.assigner.counts().lent, 1U) << "one shows how fast it is";
  EXPECT_EQ(stuck.assigner.counts().withdrawn, 1U);
  EXPECT_EQ(stuck.helped, alone.helped);
}

TEST(AssignSpare, OneThatIsTooSlowForTheWindowIsLentNothingMore) {
  Training run(1, 5'000, 400);
  run.go(60'000);
  EXPECT_EQ(run.out, 400);
  EXPECT_LE(run.assigner.counts().lent, 2U);
  EXPECT_LE(run.now, 420 * kMs);
}

// It stops in the middle: what it holds is made by the helper when it comes there, which is before it is
// needed.
TEST(AssignSpare, OneThatStopsInTheMiddleIsNotWaitedFor) {
  Training run(10, 10, 600);
  run.go(1'000);
  EXPECT_GT(run.made[kSpare], 50);
  run.ms_[kSpare] = 0;
  const int before = run.out;
  const int64_t began_ms = run.now / kMs;
  run.go(20'000);
  EXPECT_EQ(run.out, 600);
  EXPECT_LE(run.now / kMs - began_ms, (600 - before) * 10 + 20);
}

TEST(AssignSpare, ItIsLentNothingWhileItStepsBackAndWhatItHasIsWithdrawn) {
  Training run(10, 20, 600);
  run.go(1'000);
  const auto lent = run.assigner.counts().lent;
  const auto has = run.queues[kSpare].size();
  EXPECT_GT(has, 0U);
  run.assigner.let_spare(false);
  EXPECT_EQ(run.decide(), has);
  run.go(500);
  EXPECT_EQ(run.assigner.counts().lent, lent);
  run.assigner.let_spare(true);
  run.go(10'000);
  EXPECT_GT(run.assigner.counts().lent, lent);
  EXPECT_EQ(run.out, 600);
}

// A helper that is quick enough has room for all that waits.
TEST(AssignSpare, NothingIsLentWhereOthersHaveRoom) {
  Assigner assigner(options(), 0);
  assigner.joined(kHelper, false, 8, 0);
  assigner.spare_joined(kSpare, 8, 0);
  for (int i = 0; i < 8; ++i) assigner.push(1, 1);
  for (const Ask& ask : assigner.decide(0).ask) EXPECT_EQ(ask.endpoint, kHelper);
  EXPECT_EQ(assigner.counts().lent, 0U);
}

TEST(AssignSpare, ALateRangeIsHedgedThoughASpareOneHasItToo) {
  Assigner assigner(options(), 0);
  assigner.joined(kHelper, false, 1, 0);
  assigner.spare_joined(kSpare, 1, 0);
  for (int i = 0; i < 3; ++i) assigner.push(1, 1);
  std::vector<Ask> asked = assigner.decide(0).ask;
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked.back(), (Ask{{2, 0}, kSpare}));
  assigner.answered({0, 0}, kHelper, 10 * kMs);
  EXPECT_EQ(assigner.decide(10 * kMs).ask, (std::vector<Ask>{{{2, 0}, kHelper}}));
  assigner.joined(3, false, 1, 11 * kMs);
  assigner.answered({1, 0}, kHelper, 11 * kMs);
  bool hedged = false;
  for (const Ask& ask : assigner.decide(5000 * kMs).ask) hedged |= ask == Ask{{2, 0}, 3};
  EXPECT_TRUE(hedged);
  EXPECT_EQ(assigner.counts().hedged, 1U);
  EXPECT_EQ(assigner.answered({2, 0}, kSpare, 5001 * kMs), Assigner::Verdict::kFirst);
  EXPECT_EQ(assigner.decide(5001 * kMs).cancel.size(), 2U);
}

// A read that fails here, where the data may not lie, says nothing of the sample.
TEST(AssignSpare, ItsFailureIsNobodysFailure) {
  Assigner assigner(options(), 0);
  assigner.joined(kHelper, false, 1, 0);
  assigner.spare_joined(kSpare, 1, 0);
  for (int i = 0; i < 3; ++i) assigner.push(1, 1);
  assigner.decide(0);
  EXPECT_EQ(assigner.failed({2, 0}, kSpare, false, 1), Assigner::Failure::kIgnored);
  EXPECT_TRUE(assigner.decide(2).ask.empty()) << "it is not lent that again";
  assigner.answered({0, 0}, kHelper, kMs);
  EXPECT_EQ(assigner.decide(kMs).ask, (std::vector<Ask>{{{2, 0}, kHelper}}));
}

TEST(AssignSpare, ItGoesOnWhileNoHelperIsThereAndTheErrorIsTheSame) {
  AssignOptions lonely = options();
  lonely.lonely_ns = 1000 * kMs;
  Assigner assigner(lonely, 0);
  assigner.joined(kHelper, false, 1, 0);
  assigner.spare_joined(kSpare, 1, 0);
  for (int i = 0; i < 8; ++i) assigner.push(1, 1);
  assigner.decide(0);
  assigner.lost(kHelper, kMs);
  const auto asked = assigner.decide(kMs).ask;
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0], (Ask{{0, 0}, kSpare})) << "the first that is needed";
  EXPECT_EQ(assigner.endpoints(), 0U);
  EXPECT_TRUE(assigner.decide(900 * kMs).give_up.empty());
  EXPECT_FALSE(assigner.decide(1100 * kMs).give_up.empty());
}

TEST(AssignSpare, WhatADeadOneHadIsStillWaiting) {
  Assigner assigner(options(), 0);
  assigner.joined(kHelper, false, 1, 0);
  assigner.spare_joined(kSpare, 1, 0);
  for (int i = 0; i < 3; ++i) assigner.push(1, 1);
  assigner.decide(0);
  EXPECT_TRUE(assigner.lost(kSpare, kMs).empty());
  EXPECT_EQ(assigner.counts().lost, 0U);
  EXPECT_EQ(assigner.counts().retried, 0U);
  assigner.answered({0, 0}, kHelper, 2 * kMs);
  EXPECT_EQ(assigner.decide(2 * kMs).ask, (std::vector<Ask>{{{2, 0}, kHelper}}));
}

}  // namespace
}  // namespace stoker::feed
