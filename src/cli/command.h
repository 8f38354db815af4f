// SPDX-License-Identifier: Apache-2.0
// The command line: `stoker run`, ps, logs, stop, rm, top, metrics, compare, advise, data, server. A client
// of the HTTP API; it knows the server only by its socket. Exit codes: the user's own for `run`; 125 the
// platform's fault, 126 not runnable, 127 not found, 64 usage, 75 try later, 77 not allowed.
#pragma once

#include <functional>

namespace stoker::cli {

struct ServerArguments {
  double cpu_scale = 1;
  double idle_s = 600;
  bool detached = false;
  int ready_fd = -1;
  bool json = false;
};

// What main wires in: the command line starts a server but is not one.
struct Hooks {
  std::function<int(const ServerArguments&)> serve;
};

int command_line(int argc, char** argv, const Hooks& hooks);

}  // namespace stoker::cli
