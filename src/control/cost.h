// SPDX-License-Identifier: Apache-2.0
// What a job costs: every instance is billed from the moment machines were given until the job is over. Pure.
#pragma once

#include <optional>

#include "control/job_state.h"

namespace stoker::control {

// USD per hour of all instances; nothing where the price of one is not known.
std::optional<double> price_per_hour(const JobSpec& spec);
// Seconds each instance is billed for so far.
double billed_seconds(const JobState& state, int64_t now_ms);
std::optional<double> cost(const JobSpec& spec, const JobState& state, int64_t now_ms);

}  // namespace stoker::control
