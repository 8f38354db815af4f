// SPDX-License-Identifier: Apache-2.0
#include "telemetry/inside.h"

#include <sstream>
#include <string_view>

#include "base/files.h"

namespace stoker::telemetry {

// Lines of "ID:CONTROLLERS:PATH", of version 2 "0::PATH".
std::string instance_in(const std::string& cgroups) {
  const std::string parent = std::string(kCgroupParent) + "/";
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string::npos) continue;
    std::string_view path = std::string_view(line).substr(colon + 1);
    if (!path.starts_with(parent)) continue;
    path.remove_prefix(parent.size());
    return std::string(path.substr(0, path.find('/')));
  }
  return {};
}

Result<std::string> instance_of(pid_t pid) {
  STOKER_ASSIGN(std::string cgroups, read_text("/proc/" + std::to_string(pid) + "/cgroup"));
  return instance_in(cgroups);
}

}  // namespace stoker::telemetry
