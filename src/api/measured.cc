// SPDX-License-Identifier: Apache-2.0
#include "api/measured.h"

#include "api/figures.h"
#include "control/advice.h"
#include "control/comparison.h"

namespace stoker::api {

namespace {

using http::ExchangePtr;

Result<control::JobFigures> figures_of(control::Controller& controller, const std::string& name) {
  STOKER_ASSIGN(control::Job * job, controller.find(name));
  STOKER_ASSIGN(control::JobFigures figures, read_figures(job->stored, job->folder));
  figures.emulated_accelerators = job->emulated;
  return figures;
}

Result<Json> comparison(control::Controller& controller, const http::Request& request) {
  std::vector<control::JobFigures> jobs;
  for (const auto& [key, name] : request.query) {
    if (key != "job") continue;
    STOKER_ASSIGN(control::JobFigures figures, figures_of(controller, name));
    jobs.push_back(std::move(figures));
  }
  if (jobs.empty()) return invalid("compare needs at least one job: /v1/compare?job=A&job=B");
  STOKER_ASSIGN(auto rows, control::compare(jobs));
  return control::to_json(rows);
}

Result<Json> advice(control::Controller& controller, const std::string& name) {
  STOKER_ASSIGN(control::JobFigures figures, figures_of(controller, name));
  std::vector<control::Offer> offers;
  for (const auto& [type, row] : controller.catalogue().rows())
    offers.push_back({type, row.family, static_cast<double>(row.vcpus), static_cast<int>(row.gpus),
                      row.price_per_hour.value_or(0)});
  STOKER_ASSIGN(control::Advice found, control::advise(figures, offers));
  return control::to_json(found);
}

void answer(ExchangePtr exchange, Result<Json> body) {
  exchange->respond(body.ok() ? http::json_response(*body) : http::error_response(body.error()));
}

}  // namespace

void add_measured_routes(Router& router, control::Controller& controller) {
  control::Controller* c = &controller;
  router.add("GET", "/v1/compare", Access::kOwner, [c](ExchangePtr exchange, const Router::Parameters&) {
    answer(exchange, comparison(*c, exchange->request()));
  });
  router.add("GET", "/v1/jobs/{job}/advice", Access::kOwner,
             [c](ExchangePtr exchange, const Router::Parameters& p) { answer(exchange, advice(*c, p[0])); });
}

}  // namespace stoker::api
