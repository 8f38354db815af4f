// SPDX-License-Identifier: Apache-2.0
// A child process with a socketpair to talk over and a pipe that catches its stderr. Confined to its loop's
// thread.
//
// It ends as a Process does. What it writes to stderr goes on to our stderr; the last lines are kept for
// error messages.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "wire/loop.h"
#include "wire/process.h"

namespace stoker::wire {

class Child {
 public:
  static constexpr int kSocketNumber = Process::kSocketNumber;

  // `on_exit` comes once from the loop with how it ended ("exit status 3", "killed by signal 9"), after the
  // reaping; never after kill_and_reap() or the destructor.
  static Result<std::unique_ptr<Child>> start(Loop& loop, const ChildCommand& command,
                                              std::function<void(const std::string&)> on_exit);
  ~Child();
  UniqueFd take_socket() { return process_.take_socket(); }
  int pid() const { return process_.pid(); }
  bool running() const { return process_.running(); }
  int64_t cpu_ns() const { return process_.cpu_ns(); }  // so far, or in all
  std::string last_lines() const;
  std::string kill_and_reap();  // SIGKILL, waits; returns how it ended

 private:
  Child(Loop& loop, Process process) : loop_(loop), process_(std::move(process)) {}
  std::string reap();
  std::string ended(std::string (*end)(Process&));
  void drain_stderr();

  Loop& loop_;
  Process process_;
  UniqueFd stderr_;
  std::string tail_;
  std::function<void(const std::string&)> on_exit_;
};

}  // namespace stoker::wire
