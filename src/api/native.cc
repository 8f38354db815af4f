// SPDX-License-Identifier: Apache-2.0
#include "api/native.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "api/long_poll.h"
#include "base/files.h"
#include "base/text.h"

namespace stoker::api {

namespace {

constexpr size_t kMostReason = 1024;

using control::Job;
using http::ExchangePtr;

// A handler that answers at once with a value or an error.
template <typename F>
Router::Handle answering(F make) {
  return [make](ExchangePtr exchange, const Router::Parameters& parameters) {
    Result<Json> answer = make(exchange->request(), parameters);
    exchange->respond(answer.ok() ? http::json_response(*answer) : http::error_response(answer.error()));
  };
}

Json server_json(const NativeContext& context) {
  const auto& options = context.controller.options();
  Json machine;
  machine.set("cores", options.machine.cores).set("memory_bytes", options.machine.memory_bytes);
  machine.set("gpus", options.machine.gpus).set("gpu_model", options.machine.gpu_model);
  Json json;
  json.set("version", STOKER_VERSION).set("pid", static_cast<int64_t>(::getpid())).set("home", options.home);
  json.set("cpu_scale", options.defaults.cpu_scale).set("machine", std::move(machine));
  json.set("active_jobs", static_cast<int64_t>(context.controller.active()));
  return json;
}

Result<Json> stop_server(NativeContext& context, const http::Request& request) {
  STOKER_ASSIGN(Json body, Json::parse(request.body.empty() ? "{}" : request.body));
  bool force = body["force"].as_bool();
  size_t active = context.controller.active();
  if (active > 0 && !force)
    return Error{
        Code::kUnavailable,
        "the server has " + std::to_string(active) + (active == 1 ? " active job" : " active jobs") +
            "; stop them first (`stoker ps`, `stoker stop JOB`), or add --force to stop them with it",
        {}};
  if (Status written = context.controller.check_written(); !written.ok() && !force)
    return unavailable(written.error().message + ", or add --force, and it is lost");
  context.loop.post([&context, force] { context.stop_server(force); });
  Json json;
  json.set("stopping", true);
  return json;
}

void submit(NativeContext& context, ExchangePtr exchange) {
  auto request = Json::parse(exchange->request().body);
  if (!request.ok()) return exchange->respond(http::error_response(request.error()));
  context.controller.submit(*request, [&context, exchange](Result<control::Controller::Submitted> submitted) {
    if (!submitted.ok()) return exchange->respond(http::error_response(submitted.error()));
    Json::Array left_out;
    for (const std::string& path : submitted->code.left_out) left_out.emplace_back(path);
    Json code;
    code.set("files", submitted->code.files)
        .set("bytes", submitted->code.bytes)
        .set("left_out", std::move(left_out));
    Json body;
    body.set("job", context.controller.job_json(*submitted->job)).set("code", std::move(code));
    exchange->respond(http::json_response(body, 201));
  });
}

void show(NativeContext& context, ExchangePtr exchange, const std::string& name) {
  auto found = context.controller.find(name);
  if (!found.ok()) return exchange->respond(http::error_response(found.error()));
  auto job = (*found)->shared_from_this();
  std::string_view text = exchange->request().query_value("after");
  int64_t after = -1;
  std::from_chars(text.data(), text.data() + text.size(), after);
  long_poll(context.loop, exchange, job->changed, kLongPoll, [&context, job, exchange, after](bool last) {
    if (job->version == after && !last && !job->over()) return false;
    exchange->respond(http::json_response(context.controller.job_json(*job)));
    return true;
  });
}

Result<Json> stop_job(NativeContext& context, const http::Request& request, const std::string& name) {
  STOKER_ASSIGN(Json body, Json::parse(request.body.empty() ? "{}" : request.body));
  STOKER_ASSIGN(Job * job, context.controller.find(name));
  std::string reason(cut_text(shown_text(body["reason"].as_string()), kMostReason));
  STOKER_TRY(context.controller.stop(*job, reason.empty() ? "a user asked for it" : reason));
  return context.controller.job_json(*job);
}

// Of the group and host, "": all.
std::vector<control::LogSource> log_sources(const Job& job, const std::string& group,
                                            const std::string& host) {
  std::vector<control::LogSource> sources;
  for (const control::HostState& state : job.state().hosts) {
    if ((!group.empty() && state.group != group) || (!host.empty() && state.name != host)) continue;
    const std::string folder = job.folder + "/logs/" + state.group;
    sources.push_back(
        {folder, folder + "/" + state.name + ".log", "[" + state.group + "/" + state.name + "] "});
  }
  return sources;
}

bool may_grow(const Job& job, const std::string& group) {
  return std::any_of(job.spec().groups.begin(), job.spec().groups.end(), [&](const control::JobGroup& one) {
    return one.spec.elastic() && (group.empty() || one.spec.name == group);
  });
}

void logs(NativeContext& context, ExchangePtr exchange, const std::string& name) {
  auto found = context.controller.find(name);
  if (!found.ok()) return exchange->respond(http::error_response(found.error()));
  auto job = (*found)->shared_from_this();
  if (Status there = context.controller.check_folder(*job); !there.ok())
    return exchange->respond(http::error_response(there.error()));
  const http::Request& request = exchange->request();
  const std::string group(request.query_value("group")), host(request.query_value("host"));
  std::vector<control::LogSource> sources = log_sources(*job, group, host);
  if (sources.empty()) {
    std::string known;
    for (const control::LogSource& source : log_sources(*job, "", ""))
      known += (known.empty() ? "" : ", ") + source.prefix.substr(1, source.prefix.size() - 3);
    return exchange->respond(http::error_response(
        {Code::kNotFound, "job " + job->name() + " has no such group or host; it has " + known, {}}));
  }
  for (const control::LogSource& source : sources)
    // Made here too: the log of a job that is still queued can be followed. Not again for a job whose folder
    // was removed.
    if (Status made = job->over() ? ok() : make_directories(source.folder); !made.ok())
      return exchange->respond(http::error_response(made.error()));
  const bool follow = request.query_value("follow") == "1";
  const bool plain = sources.size() == 1 && request.query_value("prefix") != "1" &&
                     !(follow && host.empty() && may_grow(*job, group));
  auto now = [job, group, host, plain] {
    std::vector<control::LogSource> all = log_sources(*job, group, host);
    if (plain) all[0].prefix.clear();
    return all;
  };
  control::stream_logs(
      context.watches, exchange, std::move(now), follow, [job] { return job->over(); }, job->changed);
}

// What is removed cannot be had again: a beginning of a name is not enough here.
void remove(NativeContext& context, ExchangePtr exchange, const std::string& name) {
  auto found = context.controller.find(name);
  if (found.ok() && name != "last" && (*found)->name() != name)
    found = Error{Code::kNotFound,
                  "there is no job '" + name + "'; did you mean " + (*found)->name() +
                      "? A job is removed by its whole name",
                  {}};
  if (!found.ok()) return exchange->respond(http::error_response(found.error()));
  Json body;
  body.set("removed", (*found)->name());
  context.controller.remove(**found, [exchange, body = std::move(body)](const Status& removed) {
    exchange->respond(removed.ok() ? http::json_response(body) : http::error_response(removed.error()));
  });
}

Result<Json> events(NativeContext& context, const std::string& name) {
  STOKER_ASSIGN(Job * job, context.controller.find(name));
  STOKER_ASSIGN(std::vector<Json> list, context.store.events(job->name()));
  Json json;
  json.set("job", job->name()).set("events", Json::Array(list.begin(), list.end()));
  return json;
}

Json job_list(const NativeContext& context, bool active_only) {
  Json::Array list;
  for (Job* job : context.controller.jobs())
    if (!active_only || !job->over()) list.push_back(context.controller.job_json(*job));
  Json json;
  json.set("jobs", std::move(list));
  return json;
}

Json catalogue_json(const NativeContext& context) {
  Json::Array list;
  for (const auto& [name, type] : context.controller.catalogue().rows()) list.push_back(type.to_json());
  Json json;
  json.set("instances", std::move(list));
  return json;
}

}  // namespace

void add_native_routes(Router& router, NativeContext& context) {
  using Parameters = Router::Parameters;
  using Request = http::Request;
  NativeContext* c = &context;
  router.add("GET", "/v1/server", Access::kOwner,
             answering([c](const Request&, const Parameters&) -> Result<Json> { return server_json(*c); }));
  router.add("POST", "/v1/server/stop", Access::kOwner,
             answering([c](const Request& request, const Parameters&) { return stop_server(*c, request); }));
  router.add(
      "GET", "/v1/catalogue", Access::kOwner,
      answering([c](const Request&, const Parameters&) -> Result<Json> { return catalogue_json(*c); }));
  router.add("GET", "/v1/jobs", Access::kOwner,
             answering([c](const Request& request, const Parameters&) -> Result<Json> {
               return job_list(*c, request.query_value("active") == "1");
             }));
  router.add("POST", "/v1/jobs", Access::kOwner,
             [c](ExchangePtr exchange, const Parameters&) { submit(*c, std::move(exchange)); });
  router.add("GET", "/v1/jobs/{job}", Access::kOwner,
             [c](ExchangePtr exchange, const Parameters& p) { show(*c, std::move(exchange), p[0]); });
  router.add("DELETE", "/v1/jobs/{job}", Access::kOwner,
             [c](ExchangePtr exchange, const Parameters& p) { remove(*c, std::move(exchange), p[0]); });
  router.add(
      "POST", "/v1/jobs/{job}/stop", Access::kOwner,
      answering([c](const Request& request, const Parameters& p) { return stop_job(*c, request, p[0]); }));
  router.add("GET", "/v1/jobs/{job}/logs", Access::kOwner,
             [c](ExchangePtr exchange, const Parameters& p) { logs(*c, std::move(exchange), p[0]); });
  router.add("GET", "/v1/jobs/{job}/events", Access::kOwner,
             answering([c](const Request&, const Parameters& p) { return events(*c, p[0]); }));
}

}  // namespace stoker::api
