// SPDX-License-Identifier: Apache-2.0
// One running sandbox: its PID 1 (the shim) is a child of this process and dies with it. Confined to the
// thread that launched it, which must live as long (the kernel ties the child to the thread).
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/sandbox/plan.h"
#include "base/files.h"
#include "base/result.h"

namespace stoker::agent {

// How the user's process ended, as waitpid says it.
struct WaitStatus {
  int raw = 0;
  bool exited() const { return (raw & 0x7f) == 0; }
  int signal() const { return raw & 0x7f; }
  int code() const { return exited() ? (raw >> 8) & 0xff : 128 + signal(); }  // as a shell counts
};

class Sandbox {
 public:
  // Makes namespaces and file tree, calls attach(pid) to plug the network in while the shim mounts, starts
  // the helpers and the user's process, and returns once that is executing. An entry that cannot be executed
  // makes a sandbox that has ended with 127 (not found) or 126, as a shell says it, and an exec_problem().
  static Result<Sandbox> launch(const SandboxPlan& plan, const std::function<Status(pid_t)>& attach);
  Sandbox(Sandbox&&) = default;
  Sandbox& operator=(Sandbox&&) = delete;
  ~Sandbox();  // kills what still lives and waits for it

  pid_t pid() const { return pid_; }
  const std::string& exec_problem() const { return exec_problem_; }
  // Readable when the shim has something to say or has ended: call next().
  int ready_fd() const { return control_.get(); }
  // The user's process has ended; or nothing yet; or kUnavailable: the shim itself was killed.
  Result<std::optional<WaitStatus>> next();
  // What next() has met meanwhile that the record should say (a helper that ended).
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

  Status signal_user(int signal);  // to the user's first process, which goes on if it is paused
  void kill();                     // everything, at once; returns when all are gone

 private:
  Sandbox(pid_t pid, UniqueFd pidfd, UniqueFd control)
      : pid_(pid), pidfd_(std::move(pidfd)), control_(std::move(control)) {}
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd control_;
  std::string exec_problem_;
  std::optional<WaitStatus> early_end_;
  std::vector<std::string> notices_;
};

}  // namespace stoker::agent
