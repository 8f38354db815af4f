// SPDX-License-Identifier: Apache-2.0
#include "agent/ownership.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

class MetricsStep : public Step {
 public:
  const char* name() const override { return "metrics"; }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    AsCaller caller(a.uid, a.gid);
    STOKER_ASSIGN(instance.metrics, telemetry::LineWriter::open(a.job_dir + "/metrics/" + a.host + ".jsonl"));
    return ok();
  }
};

}  // namespace

std::unique_ptr<Step> metrics_step() { return std::make_unique<MetricsStep>(); }

}  // namespace stoker::agent
