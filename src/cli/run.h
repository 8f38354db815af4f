// SPDX-License-Identifier: Apache-2.0
// `stoker run`: submits a job, shows how it starts, streams its logs and ends with the user's own exit code.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace stoker::cli {

struct RunArguments {
  std::string script;
  std::vector<std::string> groups;
  std::vector<std::string> entries;          // NAME=WORDS
  std::vector<std::string> inputs;           // NAME=DIR
  std::vector<std::string> environment;      // K=V
  std::vector<std::string> hyperparameters;  // NAME=VALUE
  std::vector<std::string> arguments;        // after --
  std::string name, requirements, python;
  double cpu_scale = 0;  // 0: the server's
  double grace_s = -1;   // -1: the server's
  bool fewer_gpus = false, detach = false, json = false;
};

int run(const RunArguments& arguments);

// WORDS as a shell takes them apart, quotes and backslashes included; nothing is expanded.
Result<std::vector<std::string>> words_of(const std::string& text);

// What is sent to the server; paths made absolute. Errors name the argument. (Apart for its test.)
Result<Json> run_request(const RunArguments& arguments);

}  // namespace stoker::cli
