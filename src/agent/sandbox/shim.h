// SPDX-License-Identifier: Apache-2.0
// PID 1 of an instance: builds it from the inside, starts the user's process, reaps, forwards signals,
// reports the end. Runs in a clone of the agent without exec (an exec of our binary costs more than all the
// rest) and therefore touches neither malloc nor stdio: system calls on strings that the plan holds, and
// nothing else.
#pragma once

#include <cstdint>

#include "agent/sandbox/plan.h"

namespace stoker::agent {

// What goes over the control socket (SOCK_SEQPACKET), both ways.
struct ShimMessage {
  enum class Kind : int32_t {
    kGo = 1,      // agent: the network is plugged in
    kSignal,      // agent: `value` to the user's process
    kFailed,      // shim: could not build; `value` is errno, `where` what it tried
    kNotStarted,  // shim: could not execute the entry; `value` is errno
    kStarted,     // shim: the user's process executes
    kEnded,       // shim: it ended; `value` as from waitpid
    kRestarted,   // shim: a process ended (`value` as from waitpid) and was started again
    kHelperLost,  // shim: a helper ended once too often
  };
  Kind kind = Kind::kGo;
  int32_t value = 0;
  char where[120] = {};
};

// As NULL-terminated arrays, made before the clone.
struct ExecArrays {
  std::vector<char*> arguments, environment;
  explicit ExecArrays(const ProcessPlan& plan);
};

struct ShimPlan {
  const SandboxPlan& plan;
  ExecArrays user;
  std::vector<ExecArrays> helpers;
  mutable std::vector<int64_t> helper_pids, helper_starts;  // the shim's own notes, made before the clone
  std::vector<int> kept;                                    // descriptors that the shim needs, sorted
  int last_capability = 0;
  explicit ShimPlan(const SandboxPlan& sandbox);
};

[[noreturn]] void run_shim(const ShimPlan& plan, int control);

// Used by the shim; each returns the step that failed through `where`, with errno set.
bool build_tree(const std::vector<MountStep>& mounts, const char** where);  // tree.cc
bool set_up_network(const SandboxPlan& plan, const char** where);           // interface.cc
int64_t clone_process(uint64_t flags, int* pidfd, int group);               // like fork(), by clone3

}  // namespace stoker::agent
