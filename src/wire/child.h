// SPDX-License-Identifier: Apache-2.0
// A child process with a socketpair to talk over and a pipe that catches its stderr. Confined to its loop's
// thread.
//
// It dies with us (PR_SET_PDEATHSIG, also on SIGKILL), inherits no descriptor but its socket, and is killed
// and reaped by the destructor at the latest. What it writes to stderr goes on to our stderr; the last lines
// are kept for error messages.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "wire/loop.h"

namespace stoker::wire {

struct ChildCommand {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH; "--fd" "3" is appended
  std::vector<std::string> environment;  // NAME=VALUE over ours
  int nice = 0;
};

class Child {
 public:
  static constexpr int kSocketNumber = 3;

  // `on_exit` comes once from the loop with how it ended ("exit status 3", "killed by signal 9"), after the
  // reaping; never after kill_and_reap() or the destructor.
  static Result<std::unique_ptr<Child>> start(Loop& loop, const ChildCommand& command,
                                              std::function<void(const std::string&)> on_exit);
  ~Child();
  UniqueFd take_socket() { return std::move(socket_); }
  int pid() const { return pid_; }
  bool running() const { return static_cast<bool>(pidfd_); }
  int64_t cpu_ns() const;  // so far, or in all
  std::string last_lines() const;
  std::string kill_and_reap();  // SIGKILL, waits; returns how it ended

 private:
  explicit Child(Loop& loop) : loop_(loop) {}
  std::string reap();
  void drain_stderr();

  Loop& loop_;
  int pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd socket_;
  UniqueFd stderr_;
  std::string tail_;
  int64_t final_cpu_ns_ = 0;
  std::function<void(const std::string&)> on_exit_;
};

}  // namespace stoker::wire
