// SPDX-License-Identifier: Apache-2.0
// What a finished or running job measured, as plain values: the input of compare and advise. Pure; whoever
// reads records and telemetry (the api room) fills it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace stoker::control {

// One instance group over the measured window: from the first hand-over of a batch to the last one.
struct GroupFigures {
  std::string name;
  std::string instance_type;
  std::string role;           // "" or "feed" or "aux"
  double count = 1;           // instances, the mean over the window where it grew or shrank
  double vcpus = 0;           // of one instance, as its type says
  int accelerators = 0;       // of one instance, as its type says
  double price_per_hour = 0;  // of one instance, USD; 0: not known
  double cores = 0;           // CPU quota of one instance: vCPUs x cpu_scale
  double cpu_s = 0;  // CPU seconds of all instances of the group in the window, every process in the quota
  std::optional<double>
      accelerator_percent;  // sum over accelerators, mean over instances; none where none was measured
  bool runs_own = false;    // an entry of its own in the place of the job's script or of feed workers

  bool trains() const { return role.empty(); }
  bool feeds_loaders() const { return role == "feed" && !runs_own; }
};

struct JobFigures {
  std::string job;
  double cpu_scale = 1;
  bool emulated_accelerators = false;  // ran with fewer accelerators than its types have
  std::vector<GroupFigures> groups;

  int64_t steps = 0;            // of one training process
  double window_s = 0;          // wall seconds those steps took
  double wait_s = 0;            // of it, inside the loader's next()
  double samples_per_step = 0;  // over all training processes
  // CPU of making samples, per sample: loader workers in the instance, or feed workers with their children.
  double data_cpu_s_per_sample = 0;
  std::string data_cpu_covers;        // says which processes those are, for people
  double trainer_cpu_s_per_step = 0;  // CPU of the training process itself
  // Of one training process, over the window. A thread that neither runs nor waits for a core is blocked.
  double blocked_s = 0;      // that the thread which takes the batches was, outside the loader's next()
  double loop_cpu_s = 0;     // CPU of that thread
  double client_cpu_s = 0;   // CPU of the loader's own threads, for which that thread does not wait then
  int hands = 0;             // processes or threads that made samples on its machine
  bool inline_data = false;  // samples were made by that thread itself (num_workers=0)
  double sample_bytes = 0;   // of one that was made on a training machine; 0: not known
  // The same two where nothing else disturbed them: what to predict from. CPU time under a quota or on a
  // shared machine only ever gets longer.
  double undisturbed_data_cpu_s_per_sample = 0;
  double undisturbed_trainer_cpu_s_per_step = 0;
  bool fed = false;        // samples were made by feed groups
  double spare_share = 0;  // of the samples, made by spare cores of the training instances instead
  // Of one fed training process, over the window: how long an answer had begun to come and its wire had
  // nothing more of it, and what came in all.
  double starved_s = 0;
  double received_bytes = 0;
  std::vector<std::string> notices;  // what these figures leave out, for people

  double step_s() const { return steps > 0 ? window_s / static_cast<double>(steps) : 0; }
  double wait_share() const { return window_s > 0 ? wait_s / window_s : 0; }
  double price_per_hour() const {  // 0: that of a group is not known
    double sum = 0;
    for (const GroupFigures& group : groups) {
      if (group.price_per_hour <= 0) return 0;
      sum += group.count * group.price_per_hour;
    }
    return sum;
  }
};

// Figures of fewer seconds or steps hold too much of a script's beginning.
constexpr double kShortWindow_s = 10;
constexpr int64_t kFewSteps = 20;
inline bool is_short(const JobFigures& job) { return job.window_s < kShortWindow_s || job.steps < kFewSteps; }
std::string shortness_text(const JobFigures& job);

// What a process had done and used at some moment, both counted from its start.
struct Progress {
  double units = 0;  // samples or steps
  double cpu_s = 0;
};

// CPU seconds that one unit takes while nothing disturbs it: the lower quartile over windows of the run. What
// else goes on in the machine, or beneath a virtual one, makes the CPU time of the same work longer, never
// shorter (the same picture was seen to take 22 to 33 ms within one minute). 0 where nothing was done.
double undisturbed_cpu_s(std::span<const Progress> run);

// USD that 100 steps cost on machines of this hourly price.
inline double cost_per_100_steps(double price_per_hour, double step_s) {
  return price_per_hour / 3600 * step_s * 100;
}

// 1 - cost / that of the first; none where one of them is not known (0).
inline std::optional<double> price_performance(double first_cost, double cost) {
  if (first_cost <= 0 || cost <= 0) return std::nullopt;
  return 1 - cost / first_cost;
}

// Of money: null where it is 0, which stands for not known.
inline Json money_json(double usd) { return usd > 0 ? Json(usd) : Json(); }

// The shortest step the CPU quotas allow at the CPU time that this same run used: for each set of groups that
// shares work, CPU seconds per step over cores; the largest binds.
struct Bound {
  double step_s = 0;
  std::string group;   // which group binds
  std::string covers;  // which processes' CPU time it counts
};
Bound cpu_bound(const JobFigures& figures);

}  // namespace stoker::control
