// SPDX-License-Identifier: Apache-2.0
// The tables of `stoker compare` and `stoker advise`, from the server's JSON. Pure.
#pragma once

#include <string>

#include "base/json.h"

namespace stoker::cli {

std::string comparison_text(const Json& comparison);
std::string advice_text(const Json& advice);

}  // namespace stoker::cli
