// SPDX-License-Identifier: Apache-2.0
#include "feed/own_threads.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"

namespace stoker::feed {
namespace {

TEST(OwnThreads, WorkOfAllThreadsIsCountedAlsoOfOneThatCameSince) {
  OwnThreads threads;
  auto first = threads.read();
  if (!first.ok()) GTEST_SKIP() << first.error().message;
  EXPECT_EQ(first->run_ns, 0);
  constexpr int64_t kSpinNs = 30'000'000;
  OwnThreads::Times seen;
  std::thread spinning([&] {
    for (const int64_t end = thread_cpu_ns() + kSpinNs; thread_cpu_ns() < end;) continue;
    seen = *threads.read();
  });
  spinning.join();
  EXPECT_GE(seen.run_ns, kSpinNs / 2);  // what runs counts at the next tick of the kernel
  auto after = threads.read();
  EXPECT_GE(after->run_ns, seen.run_ns);
  EXPECT_GE(after->delay_ns, seen.delay_ns);
}

}  // namespace
}  // namespace stoker::feed
