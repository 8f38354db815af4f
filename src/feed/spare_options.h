// SPDX-License-Identifier: Apache-2.0
// What a client is told of spare cores of its machine, and what it tells of them. Values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/child.h"

namespace stoker::feed {

struct SpareOptions {
  std::vector<wire::ChildCommand> commands;  // one per process; none: no spare cores take part
  double cores = 0;                          // that this process may count as its own
  bool measured = true;                      // as many of them as the trainer leaves; else always all
};

struct SpareStats {
  std::string
      state;  // "off", "unneeded", "part", "short", "busy", "paused", "ended": docs/formats/telemetry.md
  std::string why;       // of "ended"
  double cores = 0;      // that they may use now
  uint64_t samples = 0;  // made, of those that counted
  int64_t cpu_ns = 0;    // used, by dead ones too
};

}  // namespace stoker::feed
