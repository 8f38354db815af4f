// SPDX-License-Identifier: Apache-2.0
#include "agent/instance.h"

#include "base/hash.h"

namespace stoker::agent {

// On the first host of each group that a feed group serves: where STOKER_FEED points.
bool Instance::runs_dispatcher() const {
  return assignment.is_served() && assignment.feed.dispatchers.front().starts_with(assignment.host + ":");
}

std::string Instance::cgroup_name() const {
  return assignment.job + "." + assignment.network.bridge + "." + assignment.host;
}

// At most 15 characters, unique on the machine, and never reused at once: the kernel removes interfaces late.
std::string Instance::interface() const {
  std::string full = cgroup_name() + "." + std::to_string(assignment.attempt);
  return "sv" + xxh3_128(as_bytes(full)).hex().substr(0, 12);
}

std::string Instance::log_path(const std::string& name) const {
  return assignment.job_dir + "/logs/" + assignment.group + "/" + name + ".log";
}

void Instance::log_line(const std::string& text) {
  if (log) (void)write_all(log.get(), as_bytes("stoker: " + text + "\n"));
}

}  // namespace stoker::agent
