// SPDX-License-Identifier: Apache-2.0
#include "agent/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "agent/test_job.h"
#include "base/files.h"
#include "base/refuse_call.h"

namespace stoker::agent {
namespace {

TEST(Command, ThatCannotBeHeldIsKilledAndSaidSo) {
  NEEDS_ROOT();
  pid_t apart = fork();
  if (apart == 0) {
    if (!refuse_call(SYS_pidfd_open, EMFILE)) _exit(77);
    Command sleep{{"/bin/sleep", "1000"}, {}};
    sleep.limit_s = 5;
    auto ran = run_command(sleep);
    const bool left = waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
    _exit(ran.ok() || ran.error().code == Code::kDeadline ? 1 : left ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(apart, &status, 0), apart);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "system calls cannot be refused here";
  EXPECT_EQ(status, 0);
}

// A shell that leaves a sleep in a session of its own, whose arguments nobody else has.
struct LeftRunning {
  const std::string name = "4711." + std::to_string(getpid());
  Command command(const char* then) const {
    return {{"/bin/sh", "-c", "setsid sleep " + name + " & " + then}, {"PATH=/usr/bin:/bin"}};
  }
  bool is_there() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      auto line = read_text(entry.path().string() + "/cmdline");
      if (line.ok() && line->starts_with("sleep") && line->find(name) != std::string::npos) return true;
    }
    return false;
  }
  bool becomes(bool there) const {
    for (int tries = 0; tries < 5000 && is_there() != there; tries++) poll(nullptr, 0, 1);
    return is_there() == there;
  }
};

TEST(Command, WhatItLeavesRunningEndsWithIt) {
  NEEDS_ROOT();
  LeftRunning left;
  auto ran = run_command(left.command("exit 3"));
  ASSERT_TRUE(ran.ok());
  EXPECT_EQ(*ran, 3);
  EXPECT_TRUE(left.becomes(false));
  EXPECT_EQ(run_command({{"/bin/sh", "-c", "kill -9 $$"}, {}}).value(), 128 + SIGKILL);
}

TEST(Command, WhatItStartedDiesWithWhoRunsIt) {
  NEEDS_ROOT();
  LeftRunning left;
  pid_t apart = fork();
  if (apart == 0) _exit(run_command(left.command("sleep 1000")).ok() ? 0 : 1);
  EXPECT_TRUE(left.becomes(true));
  kill(apart, SIGKILL);
  ASSERT_EQ(waitpid(apart, nullptr, 0), apart);
  EXPECT_TRUE(left.becomes(false));
}

}  // namespace
}  // namespace stoker::agent
