// SPDX-License-Identifier: Apache-2.0
// A job's own copy of the user's code, so that what runs is what was there when the job was accepted. Leaves
// out what is not code by a list that users are shown. Touches files only; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace stoker::control {

struct CodeCopy {
  int64_t files = 0;
  int64_t bytes = 0;
  std::vector<std::string> left_out;  // relative paths, folders with a '/' at the end; at most 100
};

struct CodeLimits {
  int64_t files = 20'000;
  int64_t bytes = int64_t{512} << 20;
};

// Copies folder `from` into the existing folder `to`. `skip` are absolute folders that are never code
// (inputs, our own home). Links stay links. Over the limits: an error that names the largest folder and says
// what to do.
Result<CodeCopy> copy_code(const std::string& from, const std::string& to,
                           const std::vector<std::string>& skip, const CodeLimits& limits = {});

// Copies one program without what lies beside it. Of a link, what it names.
Result<CodeCopy> copy_program(const std::string& folder, const std::string& name, const std::string& to);

}  // namespace stoker::control
