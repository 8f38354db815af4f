// SPDX-License-Identifier: Apache-2.0
#include "control/silence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Silence, AgentThatSaysNothingIsToldOnceUntilItIsBack) {
  Silence silence(60);
  EXPECT_FALSE(silence.heard("a", 0));
  EXPECT_FALSE(silence.heard("b", 0));
  for (int64_t now = 15; now <= 60; now += 15) {
    EXPECT_THAT(silence.look(now), IsEmpty());
    EXPECT_FALSE(silence.heard("b", now));
  }
  EXPECT_THAT(silence.look(75), ElementsAre("a"));
  EXPECT_THAT(silence.look(90), IsEmpty());
  EXPECT_TRUE(silence.heard("a", 91));
  EXPECT_FALSE(silence.heard("a", 92));
}

TEST(Silence, LookThatIsLateItselfBlamesNobody) {
  Silence silence(60);
  silence.heard("a", 0);
  EXPECT_THAT(silence.look(100), IsEmpty()) << "the server was paused";
  for (int64_t now = 115; now <= 160; now += 15) EXPECT_THAT(silence.look(now), IsEmpty());
  EXPECT_THAT(silence.look(175), ElementsAre("a"));
}

TEST(Silence, FirstAgentAfterAPauseIsNotJudgedByIt) {
  Silence silence(60);
  silence.heard("a", 0);
  silence.ended("a");
  EXPECT_TRUE(silence.nobody());
  silence.heard("b", 1000);
  for (int64_t now = 1015; now <= 1060; now += 15) EXPECT_THAT(silence.look(now), IsEmpty());
  EXPECT_THAT(silence.look(1075), ElementsAre("b"));
}

}  // namespace
}  // namespace stoker::control
