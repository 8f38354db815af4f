// SPDX-License-Identifier: Apache-2.0
// The line of standard error that says why a command ends, for people or, on wish, for programs.
#pragma once

#include <string>

#include "base/result.h"

namespace stoker {

// "stoker: what happened", or {"error":{"kind":…,"message":…}}; `program` is "stoker" or one of its parts.
std::string error_line(const std::string& program, const Error& error, bool json);

}  // namespace stoker
