// SPDX-License-Identifier: Apache-2.0
// The routes that answer from what jobs measured.
//
//   GET /v1/compare?job=A&job=B…    control/comparison.h, each job against the first
//   GET /v1/jobs/{job}/advice       control/advice.h, over the catalogue
//   GET /v1/top?job=NAME…          docs/formats/live.md; of jobs that are not over, all or those named
//   GET /metrics                    the same for Prometheus, text
//   GET /v1/jobs/{job}/metrics      {"hosts":{"algo-1":{"group":…,"samples":[…]}}}
#pragma once

#include "api/router.h"
#include "control/controller.h"

namespace stoker::api {

// Files are read on the loop's background thread. The controller outlives the router.
void add_measured_routes(Router& router, http::Loop& loop, control::Controller& controller);

}  // namespace stoker::api
