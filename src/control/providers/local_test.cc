// SPDX-License-Identifier: Apache-2.0
// Agents as processes for real, played by a script.
#include "control/providers/local.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/refuse_call.h"
#include "base/test_folder.h"

namespace stoker::control {
namespace {

class Local : public testing::Test {
 protected:
  Local() {
    std::filesystem::create_directories(home_ + "/job/run");
    assignment_.host = "algo-1";
    assignment_.job_dir = home_ + "/job";
  }

  // `clear` is what it does for `agent --clear`, `run` what it does as an agent.
  void program(const std::string& clear, const std::string& run) const {
    std::ofstream(binary_) << "#!/bin/sh\ncase \"$*\" in *--clear*) " << clear << ";; *) " << run
                           << ";; esac\n";
    chmod(binary_.c_str(), 0755);
  }
  std::unique_ptr<LocalProvider> provider(http::Loop& loop) {
    return std::make_unique<LocalProvider>(loop, LocalProvider::Options{binary_, home_, home_ + "/socket"},
                                           [&](const std::string&, const std::string& how) {
                                             how_ = how;
                                             loop.stop();
                                           });
  }
  bool noted() const { return std::filesystem::exists(home_ + "/run/agents/job.algo-1"); }

  TestFolder own_;
  const std::string home_ = own_.path(), binary_ = home_ + "/stoker";
  std::string how_;
  agent::Assignment assignment_;
};

TEST_F(Local, WhatCouldNotBeClearedIsTheNextServersToClear) {
  {
    program("exit 125", "exit 3");
    http::Loop loop;
    auto first = provider(loop);
    ASSERT_TRUE(first->open().ok());
    ASSERT_TRUE(first->acquire("job.algo-1", assignment_).ok());
    loop.run();
    EXPECT_EQ(how_, "exit code 3");
    ASSERT_TRUE(noted());
    EXPECT_TRUE(first->owes("job.algo-1"));
    EXPECT_FALSE(first->owes("job.algo-2"));
  }
  program("echo cleared >\"" + home_ + "/cleared\"", "exit 3");
  http::Loop loop;
  auto next = provider(loop);
  ASSERT_TRUE(next->open().ok());
  loop.run();
  EXPECT_TRUE(std::filesystem::exists(home_ + "/cleared"));
  EXPECT_FALSE(noted());
  EXPECT_FALSE(next->owes("job.algo-1"));
}

TEST_F(Local, WhatWasClearedIsForgotten) {
  program("exit 0", "exit 3");
  http::Loop loop;
  auto local = provider(loop);
  ASSERT_TRUE(local->open().ok());
  ASSERT_TRUE(local->acquire("job.algo-1", assignment_).ok());
  EXPECT_TRUE(noted());
  loop.run();
  EXPECT_FALSE(noted());
}

TEST_F(Local, AgentThatDoesNotEndIsKilledAndClearedAfter) {
  program("exit 0", "exec sleep 1000");
  http::Loop loop;
  auto local = provider(loop);
  ASSERT_TRUE(local->open().ok());
  ASSERT_TRUE(local->acquire("job.algo-1", assignment_).ok());
  local->kill("job.algo-1");
  loop.run();
  EXPECT_EQ(how_, "killed by signal 9 (Killed)");
  EXPECT_FALSE(noted());
}

TEST_F(Local, AgentThatCannotBeHeldDoesNotRunOn) {
  program("exit 0", "exec sleep 1000");
  pid_t apart = fork();
  if (apart == 0) {
    http::Loop loop;
    auto local = provider(loop);
    if (!refuse_call(SYS_pidfd_open, EMFILE) || !local->open().ok()) _exit(77);
    auto acquired = local->acquire("job.algo-1", assignment_);
    const bool left = waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
    _exit(acquired.ok() ? 1 : left ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(apart, &status, 0), apart);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "system calls cannot be refused here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stoker::control
