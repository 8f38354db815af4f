// SPDX-License-Identifier: Apache-2.0
// The last lines of a file that a job's script may write: what was measured lately, however long the run.
#pragma once

#include <functional>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace stoker::telemetry {

// For reading; no descriptor where there is no plain file of that name.
Result<UniqueFd> open_plain(const std::string& path);

// Hands over the whole lines within the last bytes, at most so many, as read_lines() of series.h does.
Status read_tail(const std::string& path, size_t most_bytes, const std::function<void(const Json&)>& take);

}  // namespace stoker::telemetry
