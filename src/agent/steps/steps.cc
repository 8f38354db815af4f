// SPDX-License-Identifier: Apache-2.0
#include "agent/steps/steps.h"

namespace stoker::agent {

std::vector<std::unique_ptr<Step>> instance_steps() {
  std::vector<std::unique_ptr<Step>> steps;
  steps.push_back(folders_step());
  steps.push_back(limits_step());
  steps.push_back(network_step());
  steps.push_back(channels_step());
  steps.push_back(requirements_step());
  steps.push_back(config_step());
  steps.push_back(code_step());
  steps.push_back(helpers_step());
  steps.push_back(metrics_step());
  steps.push_back(start_step());
  return steps;
}

}  // namespace stoker::agent
