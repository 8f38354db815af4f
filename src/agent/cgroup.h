// SPDX-License-Identifier: Apache-2.0
// The control groups of one instance: CPU quota, memory and process limits, and the means to kill all of it
// at once. Works with version 1, version 2, and both mounted side by side. Confined.
//
// Version 1: CONTROLLER/stoker/NAME. Version 2: stoker/NAME with two children: `shim` (no quota) and `user`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "telemetry/cgroup_usage.h"

namespace stoker::agent {

struct CgroupLimits {
  double cores = 1;
  int64_t memory_bytes = 0;
  int64_t pids = 4096;
};

struct CpuQuota {
  int64_t quota_us = 0;
  int64_t period_us = 0;
};
// Period 20 ms (the kernel's 100 ms would freeze a small instance for 80 of every 100), longer only where the
// kernel's least quota of 1 ms demands it.
CpuQuota cpu_quota(double cores);

class Cgroup {
 public:
  // Makes the groups, or takes over those of the same name. A kernel without a controller gives kUnsupported.
  static Result<Cgroup> create(const std::string& name, const CgroupLimits& limits);
  // Removes the groups of that name, killing what is in them; nothing there is fine.
  static Status remove(const std::string& name);

  // Files into which a single-threaded process writes "0" to join (version 1's `tasks`: by far the quickest
  // way).
  const std::vector<UniqueFd>& join_files() const { return join_files_; }
  // Directories for clone3(CLONE_INTO_CGROUP); -1 without version 2.
  int shim_group() const { return shim_group_.get(); }
  int user_group() const { return user_group_.get(); }
  const telemetry::CgroupFolders& folders() const { return folders_; }

 private:
  Status limit(const CgroupLimits& limits);
  telemetry::CgroupFolders folders_;
  std::string pids_;
  std::vector<UniqueFd> join_files_;
  UniqueFd shim_group_, user_group_;
};

}  // namespace stoker::agent
