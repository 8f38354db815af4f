// SPDX-License-Identifier: Apache-2.0
// Waiting for a job by the server's long polls, which answer when the job has changed.
#pragma once

#include <functional>
#include <string>

#include "http/client.h"

namespace stoker::cli {

// The job after its next change, or as it was when none came within a minute.
Status next_change(http::Client& client, Json& job);

// Those of the job's notices that have come since `told` of them were said.
void tell_notices(const Json& job, size_t& told, const std::function<void(const std::string&)>& say);

// Until the job has processes whose log can grow. `say` gets what it waits for, once each, and the job's
// notices when they come.
Status watch_start(http::Client& client, Json& job, const std::function<void(const std::string&)>& say);

}  // namespace stoker::cli
