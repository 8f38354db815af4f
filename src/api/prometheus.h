// SPDX-License-Identifier: Apache-2.0
// What running jobs have measured, as Prometheus reads it: text exposition format 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats), names and units by
// prometheus.io/docs/practices/naming: base units, counters end in _total. docs/formats/live.md lists them.
// Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/recent.h"

namespace stoker::api {

constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

// Metrics in the order they were first named; all samples of one stand together, as the format wants it.
class Exposition {
 public:
  using Labels = std::vector<std::pair<const char*, std::string>>;
  enum class Type { kCounter, kGauge };

  // A metric that is named again keeps its type and help.
  void add(const std::string& name, Type type, const char* help, const Labels& labels, double value);
  std::string text() const;

 private:
  struct Metric {
    std::string name, head, samples;
  };
  std::vector<Metric> metrics_;
  std::map<std::string, size_t> places_;
};

struct ServerFigures {
  std::string version;
  std::map<std::string, int64_t> jobs;  // that are not over, by phase
};
std::string prometheus_text(const ServerFigures& server, const std::vector<RecentJob>& jobs);

}  // namespace stoker::api
