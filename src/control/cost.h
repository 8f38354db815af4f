// SPDX-License-Identifier: Apache-2.0
// What a job costs: every instance is billed from the moment machines were given until the job is over, one
// that was added while it ran from then until it was given back. Pure.
#pragma once

#include <optional>

#include "control/job_state.h"

namespace stoker::control {

// USD per hour of the instances that it starts with, or has now; nothing where the price of one is not known.
std::optional<double> price_per_hour(const JobSpec& spec, const JobState& state);
// Seconds that each instance it started with is billed for so far.
double billed_seconds(const JobState& state, int64_t now_ms);
// Of one instance, the part of what it is billed for that lies between two times.
double billed_seconds(const JobState& state, const HostState& host, int64_t from_ms, int64_t to_ms);
std::optional<double> cost(const JobSpec& spec, const JobState& state, int64_t now_ms);

}  // namespace stoker::control
