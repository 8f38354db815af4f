// SPDX-License-Identifier: Apache-2.0
// stoker's own HTTP API, on the user's socket; the command line is a client of it. JSON in and out, errors as
// {"error":{"code","message"}}.
//
// clang-format off
//   GET  /v1/server                       version, home, machine, jobs that are active
//   POST /v1/server/stop {"force":bool}   ends the server; refused while jobs are active unless forced
//   POST /v1/jobs                         a job (control/job_spec.h); answers {"job":…,"code":{files,bytes,left_out}}
//   GET  /v1/jobs?active=1                {"jobs":[…]} in order of arrival; all, or those that are not over
//   GET  /v1/jobs/{job}?after=V           the job; with `after` when its version is another than V, or after 25 s
//   POST /v1/jobs/{job}/stop {"reason"}
//   GET  /v1/jobs/{job}/logs?group=&host=&follow=1&prefix=1
//                                         text; each line begins with [group/algo-N] where there are several or with `prefix`
//   GET  /v1/jobs/{job}/events            what happened, in order
//   GET  /v1/catalogue                    instance types
// clang-format on
//
// {job} may be a name, the beginning of one, or `last`.
#pragma once

#include "api/router.h"
#include "control/controller.h"
#include "control/log_stream.h"

namespace stoker::api {

struct NativeContext {
  http::Loop& loop;
  control::Controller& controller;
  control::Store& store;
  control::FolderWatch& watches;
  std::function<void(bool force)> stop_server;
};

// The context outlives the router.
void add_native_routes(Router& router, NativeContext& context);

}  // namespace stoker::api
