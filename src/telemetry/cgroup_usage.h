// SPDX-License-Identifier: Apache-2.0
// Reads a control group's counters into a UsageSample, from either version of control groups. Confined.
#pragma once

#include <string>

#include "telemetry/series.h"

namespace stoker::telemetry {

// Directories of one group. In version 2 all are the same and `unified` is true.
struct CgroupFolders {
  std::string cpu;
  std::string cpuacct;
  std::string memory;
  bool unified = false;
};

Result<UsageSample> read_usage(const CgroupFolders& folders, double wall_s);
// How often the kernel killed a process of the group for memory.
Result<int64_t> read_oom_kills(const CgroupFolders& folders);

}  // namespace stoker::telemetry
