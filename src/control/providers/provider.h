// SPDX-License-Identifier: Apache-2.0
// Where machines come from. A provider gets one on which our agent starts with an assignment and dials home;
// that is all it knows about jobs. Confined to the loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/protocol.h"

namespace stoker::control {

class Provider {
 public:
  // Called on the loop when an agent has ended, with how ("exit code 0").
  using Ended = std::function<void(const std::string& agent, const std::string& how)>;

  virtual ~Provider() = default;
  // `agent` names the machine's agent: JOB.algo-N.
  virtual Status acquire(const std::string& agent, const agent::Assignment& assignment) = 0;
  virtual void wake(const std::string& agent) = 0;     // lets one that is paused (SIGSTOP) go on
  virtual void release(const std::string& agent) = 0;  // tells the agent to end; Ended follows
  virtual void kill(const std::string& agent) = 0;     // ends one that does not; Ended follows
  virtual std::vector<std::string> list() const = 0;   // agents that live, of earlier servers too
  // Whether something of an ended agent's instance could not be cleared, which a later server tries again.
  virtual bool owes(const std::string& agent) const = 0;
};

}  // namespace stoker::control
