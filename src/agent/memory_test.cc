// SPDX-License-Identifier: Apache-2.0
// What is told of processes that the kernel killed for memory.
#include "agent/test_job.h"

namespace stoker::agent {
namespace {

TEST(Instance, MemoryKillIsNamed) {
  NEEDS_ROOT();
  TestJob job;
  job.assignment.memory_bytes = 64 << 20;
  job.script("x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint('survived')");
  Exited exited = job.run_to_exit();
  EXPECT_TRUE(exited.oom);
  EXPECT_EQ(exited.code, 137);
  EXPECT_EQ(exited.reason, "killed by SIGKILL: out of memory (limit 0.1 GiB)");
  EXPECT_EQ(job.leftovers(), "");
}

constexpr const char* kChildThatNeedsMemory = R"(
import os
child = os.fork()
if child == 0:
    x = bytearray(300 << 20)
    for i in range(0, len(x), 4096): x[i] = 1
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
)";

TEST(Instance, AProcessKilledForMemoryIsToldWhereTheInstanceGoesOn) {
  NEEDS_ROOT();
  TestJob job;
  job.assignment.memory_bytes = 64 << 20;
  job.script(kChildThatNeedsMemory);
  EXPECT_EQ(job.run_to_exit().code, 0);
  EXPECT_EQ(job.log(), "-9\n");
  const std::string told = job.events.text();
  EXPECT_TRUE(told.find("out of memory (limit 0.1 GiB): the kernel has killed a process") != told.npos)
      << told;
  EXPECT_EQ(told.find("STOKER_SPARE_CORES"), told.npos) << "nothing feeds it: " << told;
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, AMemoryKillBesideSpareWorkersNamesThem) {
  NEEDS_ROOT();
  TestJob job;
  job.assignment.memory_bytes = 64 << 20;
  job.assignment.feed.dispatchers = {"algo-3:7170"};
  job.script(kChildThatNeedsMemory);
  EXPECT_EQ(job.run_to_exit().code, 0);
  const std::string told = job.events.text();
  EXPECT_NE(told.find("--env STOKER_SPARE_CORES=0"), told.npos) << told;
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Instance, WhatWasKilledForMemoryBeforeAnExitIsToldApartFromIt) {
  NEEDS_ROOT();
  TestJob job;
  job.assignment.memory_bytes = 64 << 20;
  job.script("import os\nif os.fork() == 0: b'x' * (300 << 20)\nos.wait()\nraise SystemExit(3)");
  EXPECT_EQ(job.run_to_exit().reason,
            "exit code 3, after the kernel had killed a process of it: out of memory (limit 0.1 GiB)");
  EXPECT_EQ(job.leftovers(), "");
}

}  // namespace
}  // namespace stoker::agent
