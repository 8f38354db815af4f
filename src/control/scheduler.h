// SPDX-License-Identifier: Apache-2.0
// Which job starts next: first come, first served, against what the machine has. Pure decisions.
#pragma once

#include <string>
#include <vector>

#include "control/job_spec.h"

namespace stoker::control {

struct Need {
  double cores = 0;
  int64_t memory_bytes = 0;
  int64_t gpus = 0;  // those it will hold; with --fewer-gpus at most what the machine has
};

Need need_of(const JobSpec& spec, const Machine& machine);

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

// Why `waiting` has to wait: "needs 1.8 cores, 0.2 are free (held by train-1)".
std::string why_waiting(const Waiting& waiting, const std::vector<Waiting>& ahead,
                        const std::vector<Waiting>& holding, const Machine& machine);

}  // namespace stoker::control
