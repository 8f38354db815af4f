// SPDX-License-Identifier: Apache-2.0
// `stoker server`: one server per STOKER_HOME, in the foreground or as the detached one that a command has
// started.
#pragma once

#include <string>

namespace stoker::api {

struct ServeOptions {
  std::string binary;     // of stoker, for the agents
  double cpu_scale = 1;   // cores per vCPU where a job does not say
  double idle_s = 600;    // ends after so long without a job or a request; 0: never
  bool detached = false;  // started by a command: log file instead of the terminal
  int ready_fd = -1;      // gets one line when the server answers, then is closed
  bool json = false;      // says on standard output where it answers, as one line of JSON
};

// Runs until it is told to end. Returns the exit code: 0; 75 when another server holds the lock; 125.
int serve(const ServeOptions& options);

}  // namespace stoker::api
