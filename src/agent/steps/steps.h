// SPDX-License-Identifier: Apache-2.0
// The life of an instance as a list. New behaviour is a new file here and one line in steps.cc.
#pragma once

#include <memory>
#include <vector>

#include "agent/instance.h"

namespace stoker::agent {

std::unique_ptr<Step> folders_step();       // the job's folders and logs, the caller's own
std::unique_ptr<Step> limits_step();        // control groups
std::unique_ptr<Step> network_step();       // the job's bridge and its way out
std::unique_ptr<Step> channels_step();      // input data
std::unique_ptr<Step> code_step();          // the script and how it is executed
std::unique_ptr<Step> requirements_step();  // its packages, installed outside
std::unique_ptr<Step> config_step();        // SageMaker's files and variables
std::unique_ptr<Step> helpers_step();       // the dispatcher beside the user's process
std::unique_ptr<Step> metrics_step();       // where samples go
std::unique_ptr<Step> start_step();         // the sandbox, running

std::vector<std::unique_ptr<Step>> instance_steps();

}  // namespace stoker::agent
