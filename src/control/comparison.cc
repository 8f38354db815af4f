// SPDX-License-Identifier: Apache-2.0
#include "control/comparison.h"

#include <algorithm>
#include <cmath>

namespace stoker::control {
namespace {

// No step is this many times as fast as its CPU quotas allow: then the CPU time was not of the steps.
constexpr double kMostOfBound = 2;

// Whole where it is.
Json count_json(double count) {
  return count == std::floor(count) ? Json(static_cast<int64_t>(count)) : Json(std::round(count * 100) / 100);
}

Json group_json(const GroupFigures& group, double window_s) {
  Json out;
  out.set("name", group.name).set("instance_type", group.instance_type).set("role", group.role);
  out.set("count", count_json(group.count)).set("vcpus", group.vcpus).set("accelerators", group.accelerators);
  out.set("price_per_hour", money_json(group.price_per_hour)).set("cores", group.cores);
  // As the published metric: the sum over vCPUs, so that 8 busy vCPUs show 800 %; of all instances, as in
  // top.
  double cores_used = window_s > 0 ? group.cpu_s / window_s : 0;
  out.set("cpu_percent", cores_used / group.cores * group.vcpus * 100);
  out.set("cpu_percent_max", group.vcpus * group.count * 100);
  out.set("accelerator_percent", group.accelerator_percent ? Json(*group.accelerator_percent) : Json());
  return out;
}

// Null where no type has any.
Json accelerator_json(const JobFigures& job) {
  const bool any = std::any_of(job.groups.begin(), job.groups.end(),
                               [](const GroupFigures& group) { return group.accelerators > 0; });
  return any ? Json(job.emulated_accelerators ? "emulated" : "real") : Json();
}

}  // namespace

ComparisonRow against(double first_price_per_hour, double first_step_s, double price_per_hour,
                      double step_s) {
  ComparisonRow row;
  row.price_per_hour = price_per_hour;
  row.cost_per_100_steps = cost_per_100_steps(price_per_hour, step_s);
  row.speedup = first_step_s / step_s;
  row.price_performance =
      price_performance(cost_per_100_steps(first_price_per_hour, first_step_s), row.cost_per_100_steps);
  return row;
}

Result<std::vector<ComparisonRow>> compare(const std::vector<JobFigures>& jobs) {
  std::vector<ComparisonRow> rows;
  for (const JobFigures& job : jobs) {
    if (job.steps <= 0 || job.window_s <= 0)
      return invalid(
          "job " + job.job +
          " has no measured steps: its script must use stoker.DataLoader and take at least two batches");
    if (std::abs(job.cpu_scale - jobs[0].cpu_scale) > 1e-9)
      return invalid("jobs " + jobs[0].job + " and " + job.job + " ran at different cpu_scale (" +
                     Json(jobs[0].cpu_scale).dump() + ", " + Json(job.cpu_scale).dump() +
                     "), so a vCPU is not the same in both; run one of them again with --cpu-scale " +
                     Json(jobs[0].cpu_scale).dump());
    ComparisonRow row =
        against(jobs[0].price_per_hour(), jobs[0].step_s(), job.price_per_hour(), job.step_s());
    row.figures = job;
    row.bound = cpu_bound(job);
    if (is_short(job)) row.figures.notices.push_back(job.job + ": " + shortness_text(job));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json to_json(const std::vector<ComparisonRow>& rows) {
  Json jobs = Json::Array{};
  for (const ComparisonRow& row : rows) {
    const JobFigures& job = row.figures;
    Json groups = Json::Array{};
    for (const GroupFigures& group : job.groups) groups.push(group_json(group, job.window_s));
    Json out;
    out.set("job", job.job)
        .set("groups", std::move(groups))
        .set("price_per_hour", money_json(row.price_per_hour));
    out.set("steps", job.steps).set("step_ms", job.step_s() * 1000);
    out.set("cost_per_100_steps", money_json(row.cost_per_100_steps)).set("speedup", row.speedup);
    out.set("price_performance", row.price_performance ? Json(*row.price_performance) : Json());
    out.set("wait_share", job.wait_share());
    const double share = row.bound.step_s / job.step_s();
    const bool known = share <= kMostOfBound;
    out.set("bound_ms", known ? Json(row.bound.step_s * 1000) : Json())
        .set("bound_group", row.bound.group)
        .set("bound_covers", row.bound.covers);
    out.set("share_of_bound", known ? Json(share) : Json());
    out.set("data_cpu_ms_per_sample", job.data_cpu_s_per_sample * 1000);
    out.set("trainer_cpu_ms_per_step", job.trainer_cpu_s_per_step * 1000);
    out.set("samples_per_step", job.samples_per_step);
    out.set("cpu_scale", job.cpu_scale).set("accelerator", accelerator_json(job));
    out.set("notices", Json::Array(job.notices.begin(), job.notices.end()));
    jobs.push(std::move(out));
  }
  Json out;
  out.set("jobs", std::move(jobs));
  return out;
}

}  // namespace stoker::control
