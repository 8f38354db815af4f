// SPDX-License-Identifier: Apache-2.0
// SageMaker's side of the contract (facts: docs/instance.md): configuration files and variables, as functions
// of the assignment. Pure.
#pragma once

#include <map>
#include <string>

#include "agent/protocol.h"

namespace stoker::agent {

std::string hyperparameters_file(const Assignment& assignment);
std::string input_data_file(const Assignment& assignment);
// `current_host` is the first key: the gethostname that AWS's images preload takes the first token of that
// text.
std::string resource_file(const Assignment& assignment);
std::string hosts_file(const Assignment& assignment);

// SM_*, TRAINING_JOB_NAME, thread counts and STOKER_*; the job's own variables win.
std::map<std::string, std::string> instance_environment(const Assignment& assignment);

}  // namespace stoker::agent
