// SPDX-License-Identifier: Apache-2.0
// What groups of MIN..MAX instances should have now: what each wants, and what they give up for the job at
// the front of the queue. Pure decisions; docs/decisions/elastic-feed.md is the whole story.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/scheduler.h"

namespace stoker::control {

// Where a group should have another number of instances than it has, those that shrink first: a group that
// cannot grow must not keep another one's machines. None that grows within the pause after an instance that
// was added has failed.
std::vector<Resized> next_resizes(const JobSpec& spec, const JobState& state, int64_t now_ms);

// When the first such pause ends, if one lasts.
std::optional<int64_t> next_try_ms(const JobState& state, int64_t now_ms);

struct Holder {  // a job that has machines
  std::string name;
  const JobSpec& spec;
  const JobState& state;
};
struct Yield {
  std::string job;
  Resized to;
};

// What is to be drained so that `front` will fit: the newest added instances, of the job that came last
// first, and no more than are needed. Nothing where it will fit anyway, because machines are on their way
// back, or would not fit without any of them either. `holders` in order of arrival.
std::vector<Yield> make_room(const Waiting& front, const std::vector<Holder>& holders,
                             const Machine& machine);

}  // namespace stoker::control
