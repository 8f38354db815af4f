// SPDX-License-Identifier: Apache-2.0
#include "control/figures.h"

#include <algorithm>

#include "base/text.h"

namespace stoker::control {

std::string shortness_text(const JobFigures& job) {
  return formatted(
      "only %.0f %s in %.1f s %s measured, so the script's beginning (imports, first pages) may "
      "be in these figures; a run of some hundred steps and at least %.0f s says more",
      static_cast<double>(job.steps), job.steps == 1 ? "step" : "steps", job.window_s,
      job.steps == 1 ? "was" : "were", kShortWindow_s);
}

double undisturbed_cpu_s(std::span<const Progress> run) {
  constexpr double kWindows = 10;
  if (run.empty()) return 0;
  const double least = (run.back().units - run.front().units) / kWindows;
  std::vector<double> rates;
  Progress from = run.front();
  for (const Progress& now : run) {
    const double units = now.units - from.units;
    if (units <= 0 || units < least) continue;
    rates.push_back((now.cpu_s - from.cpu_s) / units);
    from = now;
  }
  if (rates.empty()) return 0;
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 4];
}

Bound cpu_bound(const JobFigures& figures) {
  double feed_cores = 0;
  std::string feed_names;
  Bound bound;
  auto consider = [&](double step_s, const std::string& group) {
    if (step_s > bound.step_s) bound = {step_s, group, {}};
  };
  for (const GroupFigures& group : figures.groups) {
    double cores = group.cores * group.count;
    if (group.feeds_loaders()) {
      feed_cores += cores;
      feed_names += (feed_names.empty() ? "" : "+") + group.name;
    } else if (group.trains() && cores > 0 && figures.steps > 0) {
      consider(group.cpu_s / static_cast<double>(figures.steps) / cores, group.name);
    }
  }
  std::string covers = "all processes of the groups that train";
  if (feed_cores > 0) {
    const double samples = figures.samples_per_step * (1 - figures.spare_share);
    consider(figures.data_cpu_s_per_sample * samples / feed_cores, feed_names);
    covers += "; " + figures.data_cpu_covers + " of " + feed_names;
  }
  bound.covers = covers;
  return bound;
}

}  // namespace stoker::control
