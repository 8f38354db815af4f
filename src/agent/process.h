// SPDX-License-Identifier: Apache-2.0
// A program outside the sandbox, run to its end for one step: pip, the packet filter's tool. Blocks its
// caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace stoker::agent {

struct Command {
  std::vector<std::string> arguments;    // the first is an absolute path
  std::vector<std::string> environment;  // NAME=VALUE
  std::string folder = "/";
  std::string input;  // to its standard input, at most 60 KiB
  int output = -1;    // becomes 1 and 2; -1: /dev/null
  std::optional<uint32_t> uid, gid;
  int cancel_fd = -1;  // readable: kill it (kCancelled)
  double limit_s = 3600;
};

// The exit code (128 + signal). Run by root it dies with this process, and what it started with it: also
// what took a session of its own, and what it left running at its end.
Result<int> run_command(const Command& command);
// Absolute path of a program in the usual folders, "" where there is none.
std::string find_program(const std::string& name);

}  // namespace stoker::agent
