// SPDX-License-Identifier: Apache-2.0
#include "feed/answer_times.h"

#include <gtest/gtest.h>

namespace stoker::feed {
namespace {
constexpr int64_t kS = 1'000'000'000;

TEST(AnswerTimes, UsualIsTheNinetyFifthPercentileOfTheLastOnes) {
  AnswerTimes times;
  EXPECT_EQ(times.usual_ns(), kS);
  for (int i = 0; i < 30; ++i) times.note(50 * kS);
  for (int64_t i = 1; i <= 64; ++i) times.note(i);  // no more than so many are kept
  EXPECT_EQ(times.usual_ns(), 60);
}

TEST(AnswerTimes, PatienceDoublesWithEachAttemptAndIsShorterForWhatWasWaitedForInVain) {
  AnswerTimes times;
  for (int i = 0; i < 8; ++i) times.note(2 * kS);
  EXPECT_EQ(times.patience_ns(0, 0), 40 * kS);
  EXPECT_EQ(times.patience_ns(2, 0), 160 * kS);
  EXPECT_EQ(times.patience_ns(0, 3 * kS), 3 * kS);
  EXPECT_EQ(times.patience_ns(1, 3 * kS), 6 * kS);
  EXPECT_EQ(times.patience_ns(1, 90 * kS), 80 * kS);
  EXPECT_EQ(AnswerTimes::patience_ns(kS, 40, 0), 64 * kS);
}
}  // namespace
}  // namespace stoker::feed
