// SPDX-License-Identifier: Apache-2.0
#include "feed/cores.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace stoker::feed {
namespace {

class Cores : public testing::Test {
 protected:
  ~Cores() override { unsetenv("STOKER_CORES"); }
};

TEST_F(Cores, AnInstanceMayUseItsQuotaAndNotTheMachinesCores) {
  setenv("STOKER_CORES", "0.32", 1);
  EXPECT_DOUBLE_EQ(allowed_cpu(), 0.32);
  EXPECT_EQ(allowed_cores(), 1);
}

TEST_F(Cores, WhatIsNoQuotaLimitsNothing) {
  unsetenv("STOKER_CORES");
  const double all = allowed_cpu();
  EXPECT_GT(all, 0);
  for (const char* text : {"", "many", "0", "-1", "nan", "inf", "1e9"}) {
    setenv("STOKER_CORES", text, 1);
    EXPECT_DOUBLE_EQ(allowed_cpu(), all) << text;
  }
}

}  // namespace
}  // namespace stoker::feed
