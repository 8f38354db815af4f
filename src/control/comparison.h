// SPDX-License-Identifier: Apache-2.0
// `stoker compare`: the columns of the published heterogeneous-cluster tables for two or more jobs, each
// against the first. Pure.
#pragma once

#include <vector>

#include "base/json.h"
#include "control/figures.h"

namespace stoker::control {

struct ComparisonRow {
  JobFigures figures;
  Bound bound;
  double price_per_hour = 0;  // this and the next: 0 where a price is not known
  double cost_per_100_steps = 0;
  double speedup = 1;                       // step time of the first job / of this one
  std::optional<double> price_performance;  // 1 - cost per 100 steps / that of the first job
};

// Refuses jobs of different cpu_scale (their cores are not the same machine's), and jobs without measured
// steps.
Result<std::vector<ComparisonRow>> compare(const std::vector<JobFigures>& jobs);

// The row that a job of this price and step time has beside a first one; what compare() computes with.
ComparisonRow against(double first_price_per_hour, double first_step_s, double price_per_hour, double step_s);

Json to_json(const std::vector<ComparisonRow>& rows);

}  // namespace stoker::control
