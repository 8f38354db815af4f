// SPDX-License-Identifier: Apache-2.0
// `stoker advise`: from one run, what binds and what would help, with predicted step time and cost of each
// candidate. Pure.
//
// The model. A step of a training instance needs D = data CPU seconds and T = CPU seconds of the training
// process; its own time without waiting is S (measured where the accelerator is real; where it is emulated
// and the quota is used up, T over the quota and what its loop was blocked, because the trainer then computes
// on the CPUs that its loader competes for). Making samples on the instance itself, a step takes max(S, (D +
// T) / cores); with helpers max(S, T / cores, D / helper cores), or (D + T) / (helper cores + 0.9 cores)
// where that is shorter than the last: what the trainer leaves of its cores helps the helpers
// (docs/decisions/spare-cores.md), unless a fed run shows that they did not. With helpers, sending and
// receiving bytes is on top of D and T, as explain(helpers=) has it. In a run of seconds T holds the script's
// imports: what the quota could not have given within a step is not believed. S is at least 1 ms (or the
// step, where that is shorter): what is below it, the overheads hide.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "control/figures.h"

namespace stoker::control {

// Waiting for more of an answer that has begun for more than this share of the time, its wire may be too
// slow.
constexpr double kLinkBusy = 0.5;
// Faster by less than this is noise, not advice.
constexpr double kWorthwhile = 1.05;

// A machine one could rent.
struct Offer {
  std::string type;    // ml.c5.9xlarge
  std::string family;  // c5
  double vcpus = 0;
  int accelerators = 0;
  double price_per_hour = 0;
};

struct Candidate {
  enum class Kind { kSibling, kHelpers } kind;
  std::string type;  // the sibling that replaces the training machine, or the helper that stands beside it
  int count = 1;
  double step_s = 0;
  double price_per_hour = 0;  // of the whole job
  double cost_per_100_steps = 0;
  double speedup = 1;
  std::optional<double> price_performance;  // none where a price is not known
  std::string binds;                        // "data" or "trainer": what limits it then
};

// What the helpers of a fed job do and cost now.
struct FeedUse {
  std::string groups;         // data=1xml.c5.9xlarge
  double vcpus = 0;           // of all of them
  double vcpus_used = 0;      // over the measured window
  double vcpus_needed = 0;    // that would feed the trainer's own step
  double price_per_hour = 0;  // 0: one of the job is not known
};

struct Advice {
  std::string job;
  bool data_binds = false;
  double wait_share = 0;
  double step_s = 0;
  double own_step_s = 0;  // S: the trainer's own step, never waiting
  double data_cpu_s_per_sample = 0;
  double vcpus_per_accelerator = 0;         // of the training machine
  double vcpus_per_accelerator_needed = 0;  // that would feed it
  std::optional<FeedUse> feed;              // of a job that was fed
  // Bytes a second at which samples come, where it is the wire that brings them no faster.
  std::optional<double> link_bytes_per_s;
  // Best price-performance first; only those that are faster or, where the trainer is fed by helpers already,
  // cheaper and as fast. In a fed job helpers stand in the place of the present ones.
  std::vector<Candidate> candidates;
  std::string summary;               // one or two sentences for people
  std::vector<std::string> notices;  // of the figures it is computed from
};

// `offers`: what may be rented. Refuses a job without measured steps or without CPU time per sample.
Result<Advice> advise(const JobFigures& job, const std::vector<Offer>& offers);
Json to_json(const Advice& advice);

}  // namespace stoker::control
