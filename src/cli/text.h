// SPDX-License-Identifier: Apache-2.0
// What people read about jobs, from the server's JSON. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace stoker::cli {

// Long notes are cut where a line is wide enough for a terminal.
std::string jobs_table(const Json& jobs, int64_t now_ms, bool for_terminal);
std::string submitted_text(const Json& submitted);  // of POST /v1/jobs
std::string queued_text(const Json& job);
std::string slow_steps_text(const Json& job);  // what a job still prepares, once that takes noticeably long
std::string result_text(const Json& job);

std::string duration_text(double seconds);
std::string size_text(int64_t bytes);         // 35 kB
std::string money_text(const Json& dollars);  // "-" where it isn't known
std::string groups_text(const Json& job);     // train=1xml.p3.2xlarge data=1xml.c5.9xlarge:feed

}  // namespace stoker::cli
