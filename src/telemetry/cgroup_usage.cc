// SPDX-License-Identifier: Apache-2.0
#include "telemetry/cgroup_usage.h"

#include <cstdlib>

namespace stoker::telemetry {
namespace {

// The number after `key` in a file of "key number" lines; 0 where there is none.
int64_t number_of(const std::string& text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ')
      return std::atoll(line.data() + key.size() + 1);
    at = end + 1;
  }
  return 0;
}

}  // namespace

Result<UsageSample> read_usage(const CgroupFolders& folders, double wall_s) {
  UsageSample sample{wall_s};
  STOKER_ASSIGN(std::string cpu_stat, read_text(folders.cpu + "/cpu.stat"));
  STOKER_ASSIGN(std::string memory_stat, read_text(folders.memory + "/memory.stat"));
  std::string memory;
  // Version 2 counts in microseconds, version 1 in nanoseconds. Memory is without the file cache that would
  // be given back at once, as everybody counts it.
  if (folders.unified) {
    sample.cpu_s = static_cast<double>(number_of(cpu_stat, "usage_usec")) * 1e-6;
    sample.throttled_s = static_cast<double>(number_of(cpu_stat, "throttled_usec")) * 1e-6;
    STOKER_ASSIGN(memory, read_text(folders.memory + "/memory.current"));
    sample.memory_bytes = std::atoll(memory.c_str()) - number_of(memory_stat, "inactive_file");
  } else {
    STOKER_ASSIGN(std::string usage, read_text(folders.cpuacct + "/cpuacct.usage"));
    sample.cpu_s = static_cast<double>(std::atoll(usage.c_str())) * 1e-9;
    sample.throttled_s = static_cast<double>(number_of(cpu_stat, "throttled_time")) * 1e-9;
    STOKER_ASSIGN(memory, read_text(folders.memory + "/memory.usage_in_bytes"));
    sample.memory_bytes = std::atoll(memory.c_str()) - number_of(memory_stat, "total_inactive_file");
  }
  sample.memory_bytes = std::max<int64_t>(sample.memory_bytes, 0);
  return sample;
}

Result<int64_t> read_oom_kills(const CgroupFolders& folders) {
  STOKER_ASSIGN(std::string text,
                read_text(folders.memory + (folders.unified ? "/memory.events" : "/memory.oom_control")));
  return number_of(text, "oom_kill");
}

}  // namespace stoker::telemetry
