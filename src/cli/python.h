// SPDX-License-Identifier: Apache-2.0
// Which Python is the user's, and verbs that are Python programs of the package.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace stoker::cli {

// The interpreter that the user would get: the one named, the active environment's, the one that stoker is
// installed beside, the first on PATH. Links stay as they are, since a virtual environment is known by them.
Result<std::string> find_python(const std::string& named);

// Replaces this process by `python -m module arguments…`; returns an exit code only where that fails,
// which is told as JSON on wish.
int become_python(const std::string& module, const std::vector<std::string>& arguments, bool json);

}  // namespace stoker::cli
