// SPDX-License-Identifier: Apache-2.0
// A process that we start, with a socketpair to talk over. Confined.
//
// It dies with the thread that started it (PR_SET_PDEATHSIG, also on SIGKILL), inherits no descriptor but its
// socket and stderr, and is killed and reaped by the destructor at the latest.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace stoker::wire {

struct ChildCommand {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH; "--fd" "3" is appended
  std::vector<std::string> environment;  // NAME=VALUE over ours
  int nice = 0;
  bool idle = false;  // runs when nobody else wants to, and is the first to go where memory ends
};

class Process {
 public:
  static constexpr int kSocketNumber = 3;

  // Its stderr is `stderr_fd`, or ours for -1. Our end of the socket does not block.
  static Result<Process> start(const ChildCommand& command, int stderr_fd = -1);
  Process() = default;
  Process(Process&&) noexcept = default;
  Process& operator=(Process&&) = delete;
  ~Process() { kill_and_reap(); }

  int pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  bool running() const { return static_cast<bool>(pidfd_); }  // not reaped yet
  int socket() const { return socket_.get(); }
  UniqueFd take_socket() { return std::move(socket_); }
  int64_t cpu_ns() const;  // so far, or in all
  // Waits for its end; how it ended ("exit status 3", "killed by signal 9 (Killed)").
  std::string reap();
  std::string kill_and_reap();  // SIGKILL, then the same
  std::string reap_or_kill(int wait_ms);
  // In a fork of our process: it is not ours, and is left alone.
  void abandon();

 private:
  int pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd socket_;
  int64_t final_cpu_ns_ = 0;
};

}  // namespace stoker::wire
