// SPDX-License-Identifier: Apache-2.0
#include "feed/assign.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <tuple>

#include "feed/protocol.h"

namespace stoker::feed {
namespace {
constexpr int64_t kMs = 1'000'000;

AssignOptions small_options() {
  AssignOptions options;
  options.request_rows = 4;
  options.window_bytes = 100;
  return options;
}

TEST(Assigner, WindowIsBytesAndTheLowestIsAlwaysAdmitted) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, false, 1, 0);
  for (int i = 0; i < 3; ++i) assigner.push(4, 60);
  assigner.push(4, 1000);
  EXPECT_EQ(assigner.decide(0).admit, (std::vector<BatchId>{0}));
  ASSERT_EQ(assigner.answered({0, 0}, 1, 1), Assigner::Verdict::kFirst);
  EXPECT_TRUE(assigner.done(0));
  EXPECT_TRUE(assigner.decide(1).admit.empty());  // ready, not taken: still holds its bytes
  assigner.delivered(0);
  EXPECT_EQ(assigner.decide(1).admit, (std::vector<BatchId>{1}));
  assigner.answered({1, 0}, 1, 2);
  assigner.delivered(1);
  assigner.decide(2);
  assigner.answered({2, 0}, 1, 2);
  assigner.delivered(2);
  EXPECT_EQ(assigner.decide(3).admit, (std::vector<BatchId>{3}));  // larger than the window, yet the lowest
}

TEST(Assigner, UnitsThatTurnOutLargerAreNotAskedForBeyondTheWindow) {
  AssignOptions options = small_options();
  options.request_rows = 0;
  Assigner assigner(options, 0);
  assigner.joined(1, false, 1, 0);  // is asked for two at a time
  for (int i = 0; i < 8; ++i) assigner.push(4, 10);
  EXPECT_EQ(assigner.decide(0).admit.size(), 8u);
  for (BatchId id = 0; id < 8; ++id) assigner.set_bytes(id, 60);  // as the first one is
  assigner.answered({0, 0}, 1, 1);
  EXPECT_TRUE(assigner.decide(1).ask.empty());
  assigner.answered({1, 0}, 1, 2);  // it had been asked for before
  EXPECT_TRUE(assigner.decide(2).ask.empty());
  for (BatchId id = 0; id < 6; ++id) {
    assigner.delivered(id);
    auto asked = assigner.decide(3 + static_cast<int64_t>(id)).ask;
    if (id == 0) {
      EXPECT_TRUE(asked.empty());  // the next is here already
      continue;
    }
    ASSERT_EQ(asked, (std::vector<Ask>{{{id + 1, 0}, 1}}));
    assigner.answered({id + 1, 0}, 1, 4);
  }
}

TEST(Assigner, WorkFollowsSpeed) {
  AssignOptions options = small_options();
  options.window_bytes = 1 << 30;
  Assigner assigner(options, 0);
  assigner.joined(1, false, 1, 0);
  assigner.joined(2, false, 1, 0);
  for (int i = 0; i < 400; ++i) assigner.push(4, 1);
  std::map<EndpointId, std::deque<RangeId>> queues;
  std::map<EndpointId, int> answered;
  for (int64_t ms = 0; ms < 200; ++ms) {
    for (const Ask& ask : assigner.decide(ms * kMs).ask) queues[ask.endpoint].push_back(ask.range);
    for (EndpointId id : {1, 2}) {
      if (queues[id].empty() || (id == 2 && ms % 4 != 0)) continue;  // the second is four times slower
      assigner.answered(queues[id].front(), id, ms * kMs);
      queues[id].pop_front();
      ++answered[id];
    }
  }
  EXPECT_GT(answered[1], 3 * answered[2]);
  EXPECT_GT(answered[2], 20);
}

// Quick rows are asked for by the hundred, in equal parts that stay in cache; slow ones as few as ever.
TEST(Assigner, QuickRowsAreAskedForInLargerParts) {
  for (auto [row_bytes, ns_per_row, expected] : {std::tuple{uint64_t{4096}, int64_t{1000}, 256U},
                                                 {uint64_t{16384}, int64_t{1000}, 128U},
                                                 {uint64_t{4096}, int64_t{250'000}, 4U}}) {
    AssignOptions options = small_options();
    options.window_bytes = 1 << 30;
    Assigner assigner(options, 0);
    assigner.joined(1, true, 1, 0);
    assigner.push(256, 256 * row_bytes);
    int64_t now = 0;
    std::deque<RangeId> asked;
    while (!assigner.done(0)) {
      for (const Ask& ask : assigner.decide(now).ask) {
        EXPECT_EQ(assigner.rows_of(ask.range), 4U);  // nothing is known of it yet
        asked.push_back(ask.range);
      }
      now += 4 * ns_per_row;
      assigner.answered(asked.front(), 1, now);
      asked.pop_front();
    }
    assigner.delivered(0);
    assigner.push(256, 256 * row_bytes);
    for (const Ask& ask : assigner.decide(now).ask) EXPECT_EQ(assigner.rows_of(ask.range), expected);
  }
}

TEST(Assigner, NobodyIsAskedMoreThanAConnectionMayHold) {
  AssignOptions options = small_options();
  options.request_rows = 1;
  options.window_bytes = 1 << 30;
  Assigner assigner(options, 0);
  assigner.joined(1, false, 4096, 0);
  assigner.push(8192, 8192);
  EXPECT_LT(assigner.decide(0).ask.size(), kMaxOpenRequests);
}

TEST(Assigner, LateRangeIsHedgedAndTheFirstAnswerWins) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, false, 1, 0);
  assigner.push(4, 10);
  ASSERT_EQ(assigner.decide(0).ask.size(), 1u);
  assigner.joined(2, false, 1, 0);
  EXPECT_TRUE(assigner.decide(10 * kMs).ask.empty());
  auto decisions = assigner.decide(5000 * kMs);
  ASSERT_EQ(decisions.ask, (std::vector<Ask>{{{0, 0}, 2}}));
  EXPECT_EQ(assigner.answered({0, 0}, 2, 5001 * kMs), Assigner::Verdict::kFirst);
  EXPECT_EQ(assigner.decide(5001 * kMs).cancel, (std::vector<Ask>{{{0, 0}, 1}}));
  EXPECT_EQ(assigner.answered({0, 0}, 1, 5002 * kMs), Assigner::Verdict::kAgain);
  EXPECT_EQ(assigner.answered({0, 0}, 1, 5003 * kMs), Assigner::Verdict::kUnasked);
  EXPECT_EQ(assigner.counts().hedged, 1u);
}

TEST(Assigner, OneThatDrainedIsLostOnlyWithWhatItOwes) {
  Assigner assigner(small_options(), 0);
  for (EndpointId id : {1, 2}) assigner.joined(id, false, 1, 0);
  assigner.push(4, 10);
  const auto asked = assigner.decide(0).ask;
  ASSERT_EQ(asked.size(), 1u);
  for (EndpointId id : {1, 2}) assigner.draining(id);
  EXPECT_TRUE(assigner.lost(3 - asked[0].endpoint, kMs).empty());
  EXPECT_EQ(assigner.counts().lost, 0u);
  EXPECT_TRUE(assigner.lost(asked[0].endpoint, kMs).empty());
  EXPECT_EQ(assigner.counts().lost, 1u);
}

// Whatever finds no room waits for an answer, not for the clock: it was looked at again every 20 ms.
TEST(Assigner, NobodyWakesForWhatOnlyAnEventCanChange) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, false, 1, 0);
  assigner.push(4, 10);
  assigner.decide(0);
  assigner.joined(2, false, 1, 0);
  assigner.draining(2);
  ASSERT_TRUE(assigner.wake_at(0));
  EXPECT_TRUE(assigner.decide(3100 * kMs).ask.empty());  // late, and nobody to hedge with
  EXPECT_FALSE(assigner.wake_at(3100 * kMs));
  assigner.joined(3, false, 1, 3101 * kMs);
  EXPECT_EQ(assigner.decide(3101 * kMs).ask, (std::vector<Ask>{{{0, 0}, 3}}));
}

// Answers have begun to take longer: what was late is not so any more, and is again later.
TEST(Assigner, LateRangeThatIsNotLateAnyMoreIsNotForgotten) {
  AssignOptions options = small_options();
  options.hedge_floor_ns = 10 * kMs;
  Assigner assigner(options, 0);
  assigner.joined(1, false, 4, 0);
  for (int i = 0; i < 4; ++i) assigner.push(1, 1);
  ASSERT_EQ(assigner.decide(0).ask.size(), 4u);
  assigner.answered({0, 0}, 1, 10 * kMs);
  assigner.decide(31 * kMs);  // older than three times 10 ms, and nobody to hedge with
  assigner.answered({1, 0}, 1, 32 * kMs);
  assigner.answered({2, 0}, 1, 32 * kMs);
  assigner.joined(2, false, 1, 32 * kMs);
  assigner.delivered(0);
  assigner.push(1, 1);
  EXPECT_EQ(assigner.decide(32 * kMs).ask.size(), 1u);
  auto wake = assigner.wake_at(32 * kMs);
  ASSERT_TRUE(wake);
  bool hedged = false;
  for (const Ask& ask : assigner.decide(*wake).ask) hedged |= ask.range == RangeId{3, 0};
  EXPECT_TRUE(hedged);
}

TEST(Assigner, ChildIsNeverHedgedButExpelled) {
  AssignOptions options = small_options();
  options.deadline_ns = 100 * kMs;
  Assigner assigner(options, 0);
  assigner.joined(1, true, 1, 0);
  assigner.push(4, 10);
  assigner.decide(0);
  assigner.joined(2, true, 1, 0);
  EXPECT_TRUE(assigner.decide(90 * kMs).expel.empty());
  auto decisions = assigner.decide(101 * kMs);
  EXPECT_EQ(decisions.expel, (std::vector<EndpointId>{1}));
  EXPECT_TRUE(decisions.ask.empty());  // not before it is dead
  EXPECT_TRUE(assigner.lost(1, 102 * kMs).empty());
  EXPECT_EQ(assigner.decide(102 * kMs).ask, (std::vector<Ask>{{{0, 0}, 2}}));
}

// A trainer that was stopped for a minute finds its children's answers in their sockets, one after another;
// with the first of them, the other children looked as if they had missed their deadlines.
TEST(Assigner, OwnPauseMakesNobodyLate) {
  AssignOptions options = small_options();
  options.deadline_ns = 100 * kMs;
  Assigner assigner(options, 0);
  for (EndpointId child : {1, 2}) assigner.joined(child, true, 1, 0);
  for (int i = 0; i < 4; ++i) assigner.push(4, 10);
  ASSERT_EQ(assigner.decide(0).ask.size(), 4u);
  ASSERT_EQ(assigner.wake_at(0), 100 * kMs + 1);
  int64_t now = 60'000 * kMs;
  EXPECT_EQ(assigner.answered({0, 0}, 1, now), Assigner::Verdict::kFirst);
  EXPECT_TRUE(assigner.decide(now).expel.empty());
  ASSERT_EQ(assigner.wake_at(now), now + 20 * kMs);
  EXPECT_EQ(assigner.decide(now + 20 * kMs).expel, (std::vector<EndpointId>{2}));  // since then, it is
}

constexpr int64_t kS = 1000 * kMs;

// With two answers known, nobody waits ten minutes for the third.
TEST(Assigner, ChildIsGivenWhatIsKnownOfAnswersOrAMinute) {
  for (auto [answers, took, patience] : {std::tuple{0, 0 * kS, 300 * kS},
                                         {1, kS / 10, 60 * kS},
                                         {2, 5 * kS, 100 * kS},
                                         {8, kS / 10, 10 * kS},
                                         {8, kS, 20 * kS},
                                         {8, 60 * kS, 600 * kS}}) {
    Assigner assigner(small_options(), 0);
    assigner.joined(1, true, 1, 0);
    int64_t now = 0;
    for (BatchId batch = 0;; ++batch) {
      assigner.push(4, 10);
      ASSERT_EQ(assigner.decide(now).ask, (std::vector<Ask>{{{batch, 0}, 1}}));
      if (batch == static_cast<BatchId>(answers)) break;
      now += took;
      ASSERT_EQ(assigner.answered({batch, 0}, 1, now), Assigner::Verdict::kFirst);
      assigner.delivered(batch);
    }
    EXPECT_EQ(assigner.patience_ns({static_cast<BatchId>(answers), 0}), patience);
    EXPECT_TRUE(assigner.decide(now + patience).expel.empty());
    EXPECT_EQ(assigner.decide(now + patience + 1).expel, (std::vector<EndpointId>{1}));
  }
}

TEST(Assigner, ChildIsExpelledSoonerWhenItsBatchWasWaitedForInVain) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, true, 1, 0);
  for (int i = 0; i < 2; ++i) assigner.push(4, 10);
  ASSERT_EQ(assigner.decide(0).ask.size(), 2u);
  assigner.hurry(6 * kS);
  EXPECT_TRUE(assigner.decide(6 * kS).expel.empty());
  EXPECT_EQ(assigner.decide(6 * kS + 1).expel, (std::vector<EndpointId>{1}));
  assigner.lost(1, 6 * kS + 1);
  assigner.joined(2, true, 1, 7 * kS);
  ASSERT_EQ(assigner.decide(7 * kS).ask.size(), 2u);
  EXPECT_TRUE(assigner.decide(19 * kS).expel.empty());  // it may simply need longer
  EXPECT_EQ(assigner.decide(19 * kS + 1).expel, (std::vector<EndpointId>{2}));
}

TEST(Assigner, NobodyForTooLongIsAnError) {
  AssignOptions options = small_options();
  options.lonely_ns = 1000 * kMs;
  Assigner assigner(options, 0);
  EXPECT_EQ(assigner.decide(2000 * kMs).give_up, "");  // nothing is wanted
  assigner.push(4, 10);
  EXPECT_NE(assigner.decide(2000 * kMs).give_up, "");
}

TEST(Assigner, FailureIsRetriedElsewhereOnlyWhenThatMayHelp) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, false, 1, 0);
  assigner.push(4, 10);
  assigner.push(4, 10);
  assigner.decide(0);
  assigner.joined(2, false, 1, 0);
  EXPECT_EQ(assigner.failed({0, 0}, 1, true, 1), Assigner::Failure::kRetried);
  EXPECT_EQ(assigner.decide(1).ask, (std::vector<Ask>{{{0, 0}, 2}}));
  EXPECT_EQ(assigner.failed({1, 0}, 1, false, 1), Assigner::Failure::kFinal);
}

TEST(Assigner, WhatWaitsBehindWhatAChildDiesOfIsNotCountedAsTried) {
  AssignOptions options = small_options();
  options.request_rows = 0;
  options.max_attempts = 2;
  Assigner assigner(options, 0);
  assigner.push(4, 10);
  assigner.push(4, 10);
  for (EndpointId child = 1; child <= 2; ++child) {
    assigner.joined(child, true, 1, child);
    ASSERT_EQ(assigner.decide(child).ask, (std::vector<Ask>{{{0, 0}, child}, {{1, 0}, child}}));
    const std::vector<RangeId> hopeless = assigner.lost(child, child);
    EXPECT_EQ(hopeless, child < 2 ? std::vector<RangeId>{} : std::vector<RangeId>(1, {0, 0}));
  }
  assigner.joined(3, true, 1, 3);
  assigner.delivered(0);  // as its error
  EXPECT_EQ(assigner.decide(3).ask, (std::vector<Ask>{{{1, 0}, 3}}));
  EXPECT_EQ(assigner.answered({1, 0}, 3, 4), Assigner::Verdict::kFirst);
}

TEST(Assigner, FailedReadWaitsBeforeItGoesToTheSameEndpoint) {
  Assigner assigner(small_options(), 0);
  assigner.joined(1, false, 1, 0);
  assigner.push(4, 10);
  int64_t now = 0;
  for (int attempt = 1; attempt < small_options().max_attempts; ++attempt) {
    ASSERT_EQ(assigner.decide(now).ask.size(), 1u);
    ASSERT_EQ(assigner.failed({0, 0}, 1, true, now), Assigner::Failure::kRetried);
    EXPECT_TRUE(assigner.decide(now).ask.empty());
    ASSERT_TRUE(assigner.wake_at(now));
    now = *assigner.wake_at(now);
  }
  EXPECT_GT(now, 2000 * kMs);
  ASSERT_EQ(assigner.decide(now).ask.size(), 1u);
  EXPECT_EQ(assigner.failed({0, 0}, 1, true, now), Assigner::Failure::kFinal);
}

// Whatever endpoints do, every batch completes, each range counts once, and the window holds.
TEST(Assigner, AnythingMayHappenAndEachRangeCountsOnce) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    auto roll = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    AssignOptions options;
    options.request_rows = roll(4) == 0 ? 0 : 1 + roll(8);
    options.window_bytes = 50 + roll(200);
    options.deadline_ns = 200 * kMs;
    options.max_attempts = 1000;
    Assigner assigner(options, 0);
    struct Fake {
      bool in_place;
      bool hangs;
      std::vector<RangeId> queue;
    };
    std::map<EndpointId, Fake> fakes;
    EndpointId next_id = 1;
    std::map<RangeId, int> counted;
    std::set<BatchId> admitted;
    BatchId next_out = 0;
    uint64_t batches = 20;
    std::vector<uint64_t> bytes;
    for (uint64_t i = 0; i < batches; ++i) {
      bytes.push_back(roll(100));
      assigner.push(1 + roll(20), bytes.back());
    }
    int64_t now = 0;
    for (int step = 0; next_out < batches; ++step) {
      ASSERT_LT(step, 200000) << "stuck, seed " << seed;
      now += roll(5) * kMs;
      if (fakes.empty() || (fakes.size() < 6 && roll(50) == 0)) {
        bool in_place = roll(3) == 0;
        fakes[next_id] = {in_place, roll(6) == 0, {}};
        assigner.joined(next_id++, in_place, 1 + roll(4), now);
      }
      auto decisions = assigner.decide(now);
      ASSERT_EQ(decisions.give_up, "");
      for (BatchId id : decisions.admit) admitted.insert(id);
      uint64_t held = 0;
      for (BatchId id : admitted) held += bytes[id];
      ASSERT_TRUE(held <= options.window_bytes || admitted.size() == 1);
      for (const Ask& ask : decisions.ask) {
        ASSERT_TRUE(admitted.count(ask.range.batch));
        ASSERT_FALSE(counted.count(ask.range));
        for (auto& [id, fake] : fakes)  // a child has its rows alone
          if (std::count(fake.queue.begin(), fake.queue.end(), ask.range)) {
            ASSERT_FALSE(fake.in_place || fakes.at(ask.endpoint).in_place);
          }
        fakes.at(ask.endpoint).queue.push_back(ask.range);
      }
      auto lose = [&](EndpointId id) {
        fakes.erase(id);
        ASSERT_TRUE(assigner.lost(id, now).empty());
      };
      for (EndpointId id : decisions.expel) lose(id);
      for (const Ask& cancel : decisions.cancel) {
        auto& queue = fakes.at(cancel.endpoint).queue;
        if (roll(2) == 0 && std::erase(queue, cancel.range))
          assigner.cancelled(cancel.range, cancel.endpoint, now);
      }
      if (fakes.empty()) continue;
      auto at = std::next(fakes.begin(), roll(static_cast<unsigned>(fakes.size())));
      unsigned what = roll(40);
      if (what == 0) {
        lose(at->first);
      } else if (what == 1) {
        at->second.hangs = !at->second.hangs;
      } else if (!at->second.hangs && !at->second.queue.empty()) {
        size_t index = roll(static_cast<unsigned>(at->second.queue.size()));
        RangeId range = at->second.queue[index];
        at->second.queue.erase(at->second.queue.begin() + static_cast<ptrdiff_t>(index));
        if (what == 2) {
          assigner.failed(range, at->first, true, now);
        } else if (assigner.answered(range, at->first, now) == Assigner::Verdict::kFirst) {
          ASSERT_EQ(++counted[range], 1);
        }
      }
      while (next_out < batches && assigner.done(next_out)) {
        if (roll(3) == 0) break;  // the consumer takes its time
        assigner.delivered(next_out);
        admitted.erase(next_out++);
      }
    }
  }
}

}  // namespace
}  // namespace stoker::feed
