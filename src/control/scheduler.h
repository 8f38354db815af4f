// SPDX-License-Identifier: Apache-2.0
// Which job starts next: first come, first served, against what the machine has. Pure decisions.
#pragma once

#include <string>
#include <vector>

#include "control/job_state.h"

namespace stoker::control {

struct Need {
  double cores = 0;
  int64_t memory_bytes = 0;
  int64_t gpus = 0;  // those it will hold; with --fewer-gpus at most what the machine has

  Need& operator+=(const Need& other);
};

Need need_of(const JobSpec& spec, const Machine& machine);  // to start
// Of a job that holds machines: what it started with and the instances that were added since.
Need held_by(const JobSpec& spec, const JobState& state, const Machine& machine);
Need need_of_one(const JobSpec& spec, const JobGroup& group);  // more of that group

// Refuses a job that can never fit, with the option that would make it fit.
Status check_fits_ever(const JobSpec& spec, const Machine& machine);

struct Waiting {
  std::string name;
  Need need;
};

// Names of the queue's jobs that start now, in order. A job that does not fit holds back those behind it, so
// that a large job is never starved by small ones.
std::vector<std::string> pick(const std::vector<Waiting>& queue, const std::vector<Waiting>& holding,
                              const Machine& machine);

// How many more of this size fit, at most `most`.
int64_t how_many_fit(const Need& one, int64_t most, const std::vector<Waiting>& holding,
                     const Machine& machine);

// Why `waiting` has to wait: "needs 1.8 cores, 0.2 are free (held by train-1)".
std::string why_waiting(const Waiting& waiting, const std::vector<Waiting>& ahead,
                        const std::vector<Waiting>& holding, const Machine& machine);

}  // namespace stoker::control
