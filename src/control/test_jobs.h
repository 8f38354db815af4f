// SPDX-License-Identifier: Apache-2.0
// Jobs for this room's tests.
#pragma once

#include <string>
#include <vector>

#include "control/job_state.h"

namespace stoker::control {

inline JobSpec example_job(const std::vector<std::string>& groups, const std::string& name = "job") {
  Catalogue catalogue = *Catalogue::built_in();
  Machine machine{2, int64_t{16} << 30, 0, ""};
  JobSpec spec;
  spec.name = name;
  spec.script = "train.py";
  spec.code_folder = "/code";
  spec.python = "/usr/bin/python3";
  spec.cpu_scale = 0.04;
  std::vector<GroupSpec> parsed;
  for (const std::string& text : groups) parsed.push_back(*parse_group(text));
  CHECK(check_groups(parsed).ok());
  for (GroupSpec& group : parsed) {
    InstanceType type = *catalogue.find(group.type, machine);
    spec.groups.push_back({std::move(group), std::move(type)});
  }
  return spec;
}

}  // namespace stoker::control
