// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

constexpr int64_t kProcessesPerCpu = 4096, kMostProcesses = 32768;

class LimitsStep : public Step {
 public:
  const char* name() const override { return "limits"; }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    CgroupLimits limits{a.cores, a.memory_bytes, std::min(kProcessesPerCpu * a.vcpus, kMostProcesses)};
    STOKER_ASSIGN(instance.cgroup, Cgroup::create(instance.cgroup_name(), limits));
    for (const auto& file : instance.cgroup->join_files()) instance.plan.join_files.push_back(file.get());
    instance.plan.shim_group = instance.cgroup->shim_group();
    instance.plan.user_group = instance.cgroup->user_group();
    return ok();
  }

  Status undo(Instance& instance) override {
    instance.cgroup.reset();
    return Cgroup::remove(instance.cgroup_name());
  }
};

}  // namespace

std::unique_ptr<Step> limits_step() { return std::make_unique<LimitsStep>(); }

}  // namespace stoker::agent
