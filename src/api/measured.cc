// SPDX-License-Identifier: Apache-2.0
#include "api/measured.h"

#include "api/figures.h"
#include "api/live.h"
#include "api/prometheus.h"
#include "base/clock.h"
#include "control/advice.h"
#include "control/comparison.h"
#include "telemetry/series.h"

namespace stoker::api {

namespace {

using http::ExchangePtr;

// A copy, so that it may leave the loop.
struct Wanted {
  control::StoredJob job;
  std::string folder;
  bool emulated = false;
};

Wanted copy_of(const control::Job& job) { return {job.stored, job.folder, job.emulated}; }

Result<Wanted> find(control::Controller& controller, const std::string& name) {
  STOKER_ASSIGN(control::Job * job, controller.find(name));
  STOKER_TRY(controller.check_folder(*job));
  return copy_of(*job);
}

std::vector<std::string> names_in(const http::Request& request) {  // ?job=A&job=B
  std::vector<std::string> names;
  for (const auto& [key, name] : request.query)
    if (key == "job") names.push_back(name);
  return names;
}

Result<control::JobFigures> figures_of(const Wanted& wanted) {
  STOKER_ASSIGN(control::JobFigures figures, read_figures(wanted.job, wanted.folder));
  figures.emulated_accelerators = wanted.emulated;
  // What happened to it may be why it was slow.
  constexpr size_t kMost = 5;
  const std::vector<std::string>& notices = wanted.job.state.notices;
  for (size_t i = 0; i < std::min(notices.size(), kMost); ++i)
    figures.notices.push_back(figures.job + ": " + notices[i]);
  if (notices.size() > kMost)
    figures.notices.push_back(figures.job + ": " + std::to_string(notices.size() - kMost) + " more notices");
  return figures;
}

Result<Json> comparison(const std::vector<Wanted>& wanted) {
  std::vector<control::JobFigures> jobs;
  for (const Wanted& job : wanted) {
    STOKER_ASSIGN(control::JobFigures figures, figures_of(job));
    jobs.push_back(std::move(figures));
  }
  STOKER_ASSIGN(auto rows, control::compare(jobs));
  return control::to_json(rows);
}

Result<Json> advice(const Wanted& wanted, const std::vector<control::Offer>& offers) {
  STOKER_ASSIGN(control::JobFigures figures, figures_of(wanted));
  STOKER_ASSIGN(control::Advice found, control::advise(figures, offers));
  return control::to_json(found);
}

Result<Json> metrics(const Wanted& wanted) {
  Json::Object hosts;
  for (const control::HostState& state : wanted.job.state.hosts) {
    STOKER_ASSIGN(auto series, telemetry::read_series(wanted.folder + "/metrics/" + state.name + ".jsonl"));
    Json::Array samples;
    for (const telemetry::UsageSample& sample : series) samples.push_back(sample.to_json());
    Json host;
    host.set("group", state.group).set("samples", std::move(samples));
    hosts[state.name] = std::move(host);
  }
  Json json;
  json.set("job", wanted.job.spec.name).set("hosts", std::move(hosts));
  return json;
}

Result<std::vector<Wanted>> compared(control::Controller& controller, const http::Request& request) {
  std::vector<Wanted> jobs;
  for (const std::string& name : names_in(request)) {
    STOKER_ASSIGN(Wanted job, find(controller, name));
    jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return invalid("compare needs at least one job: /v1/compare?job=A&job=B");
  return jobs;
}

std::vector<control::Offer> offers_of(const control::Catalogue& catalogue) {
  std::vector<control::Offer> offers;
  for (const auto& [type, row] : catalogue.rows())
    offers.push_back({type, row.family, static_cast<double>(row.vcpus), static_cast<int>(row.gpus),
                      row.price_per_hour.value_or(0)});
  return offers;
}

// A long job's files take seconds, in which agents and users would wait.
void respond_later(http::Loop& loop, ExchangePtr exchange, std::function<http::Response()> work) {
  // Moved on, so that the exchange never ends on the other thread.
  loop.offload([exchange = std::move(exchange), work = std::move(work)]() mutable -> http::Loop::Callback {
    return [exchange = std::move(exchange), response = work()] { exchange->respond(response); };
  });
}

void answer_later(http::Loop& loop, ExchangePtr exchange, std::function<Result<Json>()> work) {
  respond_later(loop, std::move(exchange), [work = std::move(work)] {
    Result<Json> body = work();
    return body.ok() ? http::json_response(*body) : http::error_response(body.error());
  });
}

// Those named, also where they are over by now; else all that are not.
Result<std::vector<Wanted>> watched(control::Controller& controller, const http::Request& request) {
  std::vector<Wanted> jobs;
  const std::vector<std::string> names = names_in(request);
  for (const std::string& name : names) {
    STOKER_ASSIGN(control::Job * job, controller.find(name));
    jobs.push_back(copy_of(*job));
  }
  if (!names.empty()) return jobs;
  for (const control::Job* job : controller.jobs())
    if (!job->over()) jobs.push_back(copy_of(*job));
  return jobs;
}

double wall_s() { return static_cast<double>(system_clock().wall_ms()) / 1000; }

std::vector<RecentJob> recent(const std::vector<Wanted>& wanted, double now_s) {
  std::vector<RecentJob> jobs;
  for (const Wanted& job : wanted) jobs.push_back(read_recent(job.job, job.folder, job.emulated, now_s));
  return jobs;
}

Json top(const std::vector<Wanted>& wanted) {
  const double now_s = wall_s();
  Json::Array jobs;
  for (const RecentJob& job : recent(wanted, now_s)) jobs.push_back(live_json(job, now_s));
  Json json;
  json.set("t", now_s).set("jobs", std::move(jobs));
  return json;
}

http::Response prometheus(const std::vector<Wanted>& wanted) {
  ServerFigures server{STOKER_VERSION, {{"queued", 0}, {"preparing", 0}, {"running", 0}, {"stopping", 0}}};
  for (const Wanted& job : wanted) ++server.jobs[control::phase_name(job.job.state.phase)];
  return {200, {{"content-type", kPrometheusType}}, prometheus_text(server, recent(wanted, wall_s()))};
}

}  // namespace

void add_measured_routes(Router& router, http::Loop& loop, control::Controller& controller) {
  control::Controller* c = &controller;
  router.add(
      "GET", "/v1/compare", Access::kOwner, [c, &loop](ExchangePtr exchange, const Router::Parameters&) {
        auto jobs = compared(*c, exchange->request());
        if (!jobs.ok()) return exchange->respond(http::error_response(jobs.error()));
        answer_later(loop, std::move(exchange), [jobs = std::move(*jobs)] { return comparison(jobs); });
      });
  router.add("GET", "/v1/jobs/{job}/advice", Access::kOwner,
             [c, &loop](ExchangePtr exchange, const Router::Parameters& p) {
               auto job = find(*c, p[0]);
               if (!job.ok()) return exchange->respond(http::error_response(job.error()));
               answer_later(loop, std::move(exchange),
                            [job = std::move(*job), offers = offers_of(c->catalogue())] {
                              return advice(job, offers);
                            });
             });
  router.add("GET", "/v1/top", Access::kOwner, [c, &loop](ExchangePtr exchange, const Router::Parameters&) {
    auto jobs = watched(*c, exchange->request());
    if (!jobs.ok()) return exchange->respond(http::error_response(jobs.error()));
    answer_later(loop, std::move(exchange),
                 [jobs = std::move(*jobs)]() -> Result<Json> { return top(jobs); });
  });
  router.add("GET", "/metrics", Access::kOwner, [c, &loop](ExchangePtr exchange, const Router::Parameters&) {
    auto jobs = watched(*c, {});
    if (!jobs.ok()) return exchange->respond(http::error_response(jobs.error()));
    respond_later(loop, std::move(exchange), [jobs = std::move(*jobs)] { return prometheus(jobs); });
  });
  router.add("GET", "/v1/jobs/{job}/metrics", Access::kOwner,
             [c, &loop](ExchangePtr exchange, const Router::Parameters& p) {
               auto job = find(*c, p[0]);
               if (!job.ok()) return exchange->respond(http::error_response(job.error()));
               answer_later(loop, std::move(exchange), [job = std::move(*job)] { return metrics(job); });
             });
}

}  // namespace stoker::api
