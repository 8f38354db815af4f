// SPDX-License-Identifier: Apache-2.0
// Instances on this machine: one `stoker agent` process each, in a session of its own, so that it outlives
// what kills the server. Its pid is known through a pidfd; a file under run/agents tells a later server of
// it, until nothing of its instance is left.
#pragma once

#include <map>
#include <string>

#include "base/files.h"
#include "control/providers/provider.h"
#include "http/loop.h"

namespace stoker::control {

class LocalProvider : public Provider {
 public:
  struct Options {
    std::string binary;  // of stoker
    std::string home;    // STOKER_HOME
    std::string socket;  // of the server
  };
  LocalProvider(http::Loop& loop, Options options, Ended ended);
  ~LocalProvider() override;

  // Finds agents of an earlier server that still live.
  Status open();

  Status acquire(const std::string& agent, const agent::Assignment& assignment) override;
  void wake(const std::string& agent) override;
  void release(const std::string& agent) override;
  void kill(const std::string& agent) override;
  std::vector<std::string> list() const override;
  bool owes(const std::string& agent) const override;

 private:
  struct Process {
    int pid = 0;
    bool is_child = true;  // of this server
    UniqueFd pidfd;
    std::string assignment;     // the file
    std::string cleared_after;  // how the agent had ended, while `agent --clear` runs in its stead
  };
  void signal(const std::string& agent, int number);
  std::string note_path(const std::string& agent) const;
  Result<Process> spawn(std::vector<std::string> arguments, const std::string& assignment);
  void watch(const std::string& agent, Process process);
  void on_end(const std::string& agent);
  // Removes what an agent that did not end well has left of its instance.
  enum class Clearing { kStarted, kNothing, kFailed };  // kNothing: its job's folder is gone
  Clearing clear(const std::string& agent, const std::string& assignment, const std::string& how);

  http::Loop& loop_;
  Options options_;
  Ended ended_;
  std::map<std::string, Process> processes_;
};

}  // namespace stoker::control
