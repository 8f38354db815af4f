// SPDX-License-Identifier: Apache-2.0
// The table of `stoker top`, from the server's JSON (docs/formats/live.md). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace stoker::cli {

// Lines without their ends. What jobs supplied is shown as in a log: control characters as \xNN.
std::vector<std::string> top_lines(const Json& live);

// What fits on a screen: lines cut to so many characters, and a last one that says how many are missing.
std::vector<std::string> fitted(std::vector<std::string> lines, size_t columns, size_t rows);

}  // namespace stoker::cli
