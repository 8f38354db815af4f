// SPDX-License-Identifier: Apache-2.0
#include "feed/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/files.h"

namespace stoker::feed {
namespace {

// cpu.cfs_quota_us / cpu.cfs_period_us (v1) or cpu.max (v2), as seen from inside.
double quota_cores() {
  auto v2 = read_text("/sys/fs/cgroup/cpu.max");
  long quota = 0, period = 0;
  if (v2.ok() && std::sscanf(v2->c_str(), "%ld %ld", &quota, &period) == 2 && period > 0)
    return static_cast<double>(quota) / static_cast<double>(period);
  auto groups = read_text("/proc/self/cgroup");
  if (!groups.ok()) return 0;
  for (size_t at = 0; at < groups->size();) {
    size_t end = std::min(groups->find('\n', at), groups->size());
    std::string line = groups->substr(at, end - at);
    at = end + 1;
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers.find(",cpu,") == std::string::npos) continue;
    for (const std::string& folder :
         {"/sys/fs/cgroup/cpu" + line.substr(second + 1),
          "/sys/fs/cgroup/cpu,cpuacct" + line.substr(second + 1), std::string("/sys/fs/cgroup/cpu")}) {
      auto q = read_text(folder + "/cpu.cfs_quota_us"), p = read_text(folder + "/cpu.cfs_period_us");
      if (!q.ok() || !p.ok()) continue;
      quota = std::atol(q->c_str()), period = std::atol(p->c_str());
      return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
    }
  }
  return 0;
}

// An instance does not see the control group that limits it: its agent says what the quota is.
double instance_cores() {
  const char* text = std::getenv("STOKER_CORES");
  const double cores = text ? std::strtod(text, nullptr) : 0;
  return std::isfinite(cores) ? cores : 0;
}

}  // namespace

double allowed_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  double cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  for (double quota : {quota_cores(), instance_cores()})
    if (quota > 0) cores = std::min(cores, quota);
  return cores;
}

std::string cpu_class() {
  __builtin_cpu_init();
  const std::string vendor = __builtin_cpu_is("intel") ? "intel" : __builtin_cpu_is("amd") ? "amd" : "other";
  if (__builtin_cpu_supports("avx512f")) return vendor + " avx512";
  return vendor + (__builtin_cpu_supports("avx2") ? " avx2" : " sse");
}

int allowed_cores() { return std::max(1, static_cast<int>(std::ceil(allowed_cpu()))); }

}  // namespace stoker::feed
