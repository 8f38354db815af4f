// SPDX-License-Identifier: Apache-2.0
#include "telemetry/inside.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stoker::telemetry {
namespace {

TEST(Inside, AControlGroupNamesTheInstance) {
  EXPECT_EQ(instance_in("9:name=systemd:/\n1:cpu:/stoker/job.algo-1\n0::/\n"), "job.algo-1");
  EXPECT_EQ(instance_in("0::/stoker/job.algo-1/user\n"), "job.algo-1");
  EXPECT_EQ(instance_in("0::/stoker/job.algo-1/user/its-own\n"), "job.algo-1");
  for (const char* outside :
       {"", "nonsense", "0::/", "0::/user.slice/stoker/x", "0::/stokers/x", "1:cpu:/stoker"})
    EXPECT_EQ(instance_in(outside), "") << outside;
}

TEST(Inside, WeAreInNoneAndWhoIsGoneIsUnknown) {
  EXPECT_EQ(*instance_of(::getpid()), "");
  EXPECT_FALSE(instance_of(1 << 30).ok());
}

}  // namespace
}  // namespace stoker::telemetry
