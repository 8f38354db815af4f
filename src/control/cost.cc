// SPDX-License-Identifier: Apache-2.0
#include "control/cost.h"

#include <algorithm>

namespace stoker::control {

std::optional<double> price_per_hour(const JobSpec& spec, const JobState& state) {
  double total = 0;
  for (const HostState& host : state.hosts) {
    const JobGroup* group = spec.find_group(host.group);
    if (!group->type.price_per_hour) return std::nullopt;
    if (!host.extra || host.phase != HostPhase::kReleased) total += *group->type.price_per_hour;
  }
  return total;
}

double billed_seconds(const JobState& state, int64_t now_ms) {
  if (state.placed_ms == 0) return 0;
  int64_t end = state.over_ms != 0 ? state.over_ms : now_ms;
  return static_cast<double>(end - state.placed_ms) / 1000;
}

double billed_seconds(const JobState& state, const HostState& host, int64_t from_ms, int64_t to_ms) {
  if (state.placed_ms == 0) return 0;
  const int64_t begin = host.extra ? host.given_ms : state.placed_ms;
  const int64_t end = host.extra ? host.released_ms : state.over_ms;
  if (end != 0) to_ms = std::min(to_ms, end);
  return static_cast<double>(std::max<int64_t>(0, to_ms - std::max(from_ms, begin))) / 1000;
}

std::optional<double> cost(const JobSpec& spec, const JobState& state, int64_t now_ms) {
  double total = 0;
  for (const HostState& host : state.hosts) {
    const JobGroup* group = spec.find_group(host.group);
    if (!group->type.price_per_hour) return std::nullopt;
    total += *group->type.price_per_hour * billed_seconds(state, host, 0, now_ms) / 3600;
  }
  return total;
}

}  // namespace stoker::control
