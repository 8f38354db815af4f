// SPDX-License-Identifier: Apache-2.0
#include "control/cost.h"

namespace stoker::control {

std::optional<double> price_per_hour(const JobSpec& spec) {
  double total = 0;
  for (const JobGroup& group : spec.groups) {
    if (!group.type.price_per_hour) return std::nullopt;
    total += *group.type.price_per_hour * static_cast<double>(group.spec.count);
  }
  return total;
}

double billed_seconds(const JobState& state, int64_t now_ms) {
  if (state.placed_ms == 0) return 0;
  int64_t end = state.over_ms != 0 ? state.over_ms : now_ms;
  return static_cast<double>(end - state.placed_ms) / 1000;
}

std::optional<double> cost(const JobSpec& spec, const JobState& state, int64_t now_ms) {
  auto price = price_per_hour(spec);
  if (!price) return std::nullopt;
  return *price * billed_seconds(state, now_ms) / 3600;
}

}  // namespace stoker::control
