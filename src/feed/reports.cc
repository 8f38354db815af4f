// SPDX-License-Identifier: Apache-2.0
#include "feed/reports.h"

#include "wire/tcp.h"

namespace stoker::feed {

namespace {
uint64_t count(const Json& figure) { return static_cast<uint64_t>(figure.as_int()); }
}  // namespace

Json WorkerReport::to_json() const {
  Json json;
  json.set("address", worker.address).set("threads", worker.threads).set("load", worker.load);
  json.set("group", figures.group).set("cores", figures.cores);
  json.set("samples", figures.samples).set("cpu_s", figures.cpu_s);
  return json;
}

Result<WorkerReport> WorkerReport::from_json(const Json& json) {
  WorkerReport report;
  STOKER_ASSIGN(report.worker.address, json.need_string("address"));
  STOKER_TRY(wire::parse_address(report.worker.address));
  report.worker.threads = json["threads"].as_int();
  report.worker.load = json["load"].as_int();
  report.figures = {json["group"].as_string(), json["cores"].as_double(), count(json["samples"]),
                    json["cpu_s"].as_double()};
  return report;
}

Json to_json(const Sizing::Consumer& consumer) {
  Json json;
  json.set("samples", consumer.samples).set("spare", consumer.spare);
  json.set("wait_s", consumer.wait_s).set("time_s", consumer.time_s);
  return json;
}

Sizing::Consumer consumer_from_json(const Json& json) {
  return {count(json["samples"]), json["wait_s"].as_double(), json["time_s"].as_double(),
          count(json["spare"])};
}

Json to_json(const std::vector<Sizing::Advice>& advice) {
  Json all = Json::Array{};
  for (const Sizing::Advice& one : advice) {
    Json json;
    json.set("group", one.group).set("workers", one.workers).set("wanted", one.wanted);
    json.set("demand_per_s", one.demand).set("supply_per_s", one.supply).set("stall", one.stall);
    json.set("spare_per_s", one.spare);
    json.set("reason", one.reason);
    all.push(std::move(json));
  }
  return all;
}

std::vector<std::string> addresses_of(const Json& view) {
  std::vector<std::string> addresses;
  for (const Json& worker : view["workers"].as_array()) addresses.push_back(worker["address"].as_string());
  return addresses;
}

}  // namespace stoker::feed
