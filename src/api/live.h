// SPDX-License-Identifier: Apache-2.0
// What `stoker top` shows of a job, as JSON: docs/formats/live.md. Pure.
#pragma once

#include "api/recent.h"

namespace stoker::api {

Json live_json(const RecentJob& job, double now_s);

// Kinds of errors that are told on, of those that a loader or worker counts; its file may say anything.
const std::vector<std::string>& error_kinds();

}  // namespace stoker::api
