// SPDX-License-Identifier: Apache-2.0
#include "feed/slack.h"

#include <gtest/gtest.h>

namespace stoker::feed {
namespace {
constexpr int64_t kSecond = 1'000'000'000;
using State = Slack::State;

// A trainer that uses, lacks and waits for so much of each second; looked at twice a second.
struct Trainer {
  explicit Trainer(double cores) : slack(cores) {}
  double pass(double seconds) {
    for (const int64_t end = now + static_cast<int64_t>(seconds * kSecond); now < end;) {
      now += kSecond / 2;
      told.run_ns += static_cast<int64_t>(run * kSecond / 2);
      told.delay_ns += static_cast<int64_t>((share > 0 ? delay_with : delay) * kSecond / 2);
      told.waited_ns += static_cast<int64_t>(wait * kSecond / 2);
      const double before = share;
      share = slack.told(told, now);
      began += before == 0 && share > 0;
    }
    return share;
  }
  Slack slack;
  Slack::Told told;
  double run = 0.1, delay = 0, delay_with = 0, wait = 0.5;
  double share = 0;
  int began = 0;
  int64_t now = 5 * kSecond;
};

TEST(Slack, ALoopThatWaitsGetsWhatTheTrainerLeaves) {
  Trainer trainer(2);
  EXPECT_GT(trainer.pass(2), 0);
  EXPECT_EQ(trainer.slack.state(), State::kTakesPart);
  EXPECT_NEAR(trainer.pass(10), 0.9 * 2 - 0.1, 1e-6);
  trainer.run = 1.2;
  EXPECT_NEAR(trainer.pass(5), 0.6, 1e-6);
  EXPECT_EQ(trainer.began, 1);
}

TEST(Slack, AFractionOfACoreIsEnough) {
  Trainer trainer(0.36);
  EXPECT_NEAR(trainer.pass(10), 0.9 * 0.36 - 0.1, 1e-6);
}

TEST(Slack, ALoopThatDoesNotWaitNeedsNobody) {
  Trainer trainer(8);
  trainer.wait = 0.03;
  EXPECT_EQ(trainer.pass(30), 0);
  EXPECT_EQ(trainer.slack.state(), State::kUnneeded);
}

// Once it does not wait any more, that is to go on: there is nothing to do, or it would wait again.
TEST(Slack, WhoHasMadeTheWaitGoStays) {
  Trainer trainer(2);
  trainer.pass(5);
  trainer.wait = 0;
  EXPECT_GT(trainer.pass(60), 1);
  EXPECT_EQ(trainer.began, 1);
}

TEST(Slack, ATrainerThatUsesItsCoresIsLeftAlone) {
  Trainer trainer(2);
  trainer.run = 1.75;
  EXPECT_EQ(trainer.pass(30), 0);
  EXPECT_EQ(trainer.slack.state(), State::kTrainerBusy);
  trainer.run = 0.5;
  EXPECT_GT(trainer.pass(5), 0);
  trainer.run = 1.9;
  EXPECT_EQ(trainer.pass(5), 0);
}

TEST(Slack, ItStepsBackSoonWhenTheTrainerWaitsForCores) {
  Trainer trainer(2);
  trainer.pass(10);
  trainer.delay = trainer.delay_with = 1.5;
  EXPECT_EQ(trainer.pass(1), 0);
  EXPECT_EQ(trainer.slack.state(), State::kTrainerShort);
  EXPECT_EQ(trainer.pass(60), 0);
  trainer.delay = trainer.delay_with = 0;
  EXPECT_GT(trainer.pass(10), 0);
}

// A small wait for cores beside a long one for batches is worth it.
TEST(Slack, WaitsForCoresAreWeighedAgainstWaitsForBatches) {
  Trainer trainer(2);
  trainer.wait = 0.7;
  trainer.delay = trainer.delay_with = 0.1;
  EXPECT_GT(trainer.pass(30), 1);
  trainer.wait = 0.1;
  EXPECT_EQ(trainer.pass(10), 0);
}

// Tight, but not short: less and less of it, and none too little.
TEST(Slack, WhereItIsTightItTakesLess) {
  Trainer trainer(2);
  trainer.wait = 0.3;
  trainer.pass(10);
  trainer.delay_with = 0.1;
  EXPECT_NEAR(trainer.pass(20), Slack::kLeast, 1e-6);
  EXPECT_EQ(trainer.slack.state(), State::kTakesPart);
}

// It is its own fault each time: tried less and less often.
TEST(Slack, WhoDoesHarmEachTimeStaysAwayLongerAndLonger) {
  Trainer trainer(1);
  trainer.delay_with = 0.4;
  trainer.wait = 0.2;
  trainer.pass(60);
  const int first = trainer.began;
  EXPECT_LE(first, 6);
  trainer.pass(240);
  EXPECT_LE(trainer.began - first, 5);
  EXPECT_GE(trainer.began - first, 3);
}

TEST(Slack, CountersThatRunBackwardsAreNoNews) {
  Trainer trainer(2);
  trainer.pass(5);
  trainer.told = {};
  EXPECT_GE(trainer.pass(5), 0);
  EXPECT_LE(trainer.share, 1.8);
}

}  // namespace
}  // namespace stoker::feed
