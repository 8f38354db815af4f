// SPDX-License-Identifier: Apache-2.0
#include "control/scheduler.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace stoker::control {

namespace {

constexpr double kSlack = 1e-6;  // cores; sums of products do not come out even
constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  std::string out(text);
  if (out.find('.') != std::string::npos) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

Need sum(const std::vector<Waiting>& jobs) {
  Need total;
  for (const Waiting& job : jobs) total += job.need;
  return total;
}

bool fits(const Need& need, const Need& held, const Machine& machine) {
  return held.cores + need.cores <= machine.cores + kSlack &&
         held.memory_bytes + need.memory_bytes <= machine.memory_bytes &&
         held.gpus + need.gpus <= machine.gpus;
}

// The largest scale, in three digits, at which the job would fit; 0 if none does.
double fitting_scale(const JobSpec& spec, const Machine& machine) {
  double vcpus = 0;
  for (const JobGroup& group : spec.groups) {
    if (group.type.is_here) return 0;
    vcpus += static_cast<double>(group.type.vcpus * group.spec.count);
  }
  JobSpec scaled = spec;
  double unit = machine.cores / vcpus < 0.1 ? 0.001 : 0.01;
  for (double scale = std::floor(machine.cores / vcpus / unit + kSlack) * unit; scale >= 0.001;
       scale -= unit) {
    scaled.cpu_scale = scale;
    if (need_of(scaled, machine).memory_bytes <= machine.memory_bytes) return scale;
    if (scale > 100 * unit) scale *= 0.9;
  }
  return 0;
}

std::string remedy(const JobSpec& spec, const Machine& machine) {
  double scale = fitting_scale(spec, machine);
  std::string here = "--group " + spec.groups.front().spec.name + "=1xhere";
  if (scale <= 0) return "ask for fewer or smaller instances, for example " + here;
  std::string gpus = spec.gpus() > machine.gpus && !spec.fewer_gpus ? " --fewer-gpus" : "";
  return "run it at --cpu-scale " + number(scale, 3) + gpus +
         ", the most that fits, or on this machine as it is with " + here;
}

const char* accelerators(int64_t count) { return count == 1 ? " accelerator" : " accelerators"; }

}  // namespace

Need& Need::operator+=(const Need& other) {
  cores += other.cores;
  memory_bytes += other.memory_bytes;
  gpus += other.gpus;
  return *this;
}

Need need_of(const JobSpec& spec, const Machine& machine) {
  Need need;
  for (const JobGroup& group : spec.groups) {
    need.cores += group.type.cores(spec.cpu_scale) * static_cast<double>(group.spec.count);
    need.memory_bytes += group.type.memory(spec.cpu_scale) * group.spec.count;
  }
  need.gpus = spec.gpus();
  if (spec.fewer_gpus) need.gpus = std::min(need.gpus, machine.gpus);
  return need;
}

Need need_of_one(const JobSpec& spec, const JobGroup& group) {
  return {group.type.cores(spec.cpu_scale), group.type.memory(spec.cpu_scale),
          spec.fewer_gpus ? 0 : group.type.gpus};
}

Need held_by(const JobSpec& spec, const JobState& state, const Machine& machine) {
  Need need = need_of(spec, machine);
  for (const HostState& host : state.hosts) {
    if (!host.extra || host.phase == HostPhase::kReleased) continue;
    need += need_of_one(spec, *spec.find_group(host.group));
  }
  return need;
}

int64_t how_many_fit(const Need& one, int64_t most, const std::vector<Waiting>& holding,
                     const Machine& machine) {
  Need held = sum(holding);
  int64_t count = 0;
  for (; count < most && fits(one, held, machine); ++count) held += one;
  return count;
}

Status check_fits_ever(const JobSpec& spec, const Machine& machine) {
  Need need = need_of(spec, machine);
  if (need.cores > machine.cores + kSlack)
    return invalid("the job needs " + number(need.cores, 2) + " cores and this machine has " +
                   number(machine.cores, 2) + ", so it can never start; " + remedy(spec, machine));
  if (need.memory_bytes > machine.memory_bytes)
    return invalid("the job needs " + number(static_cast<double>(need.memory_bytes) / kGiB, 1) +
                   " GiB of memory and this machine has " +
                   number(static_cast<double>(machine.memory_bytes) / kGiB, 1) + ", so it can never start; " +
                   remedy(spec, machine));
  if (need.gpus > machine.gpus)
    return invalid("the job needs " + std::to_string(need.gpus) + accelerators(need.gpus) +
                   " and this machine has " + std::to_string(machine.gpus) +
                   ", so it can never start; --fewer-gpus runs it with those there are, and says so");
  return ok();
}

std::vector<std::string> pick(const std::vector<Waiting>& queue, const std::vector<Waiting>& holding,
                              const Machine& machine) {
  Need held = sum(holding);
  std::vector<std::string> starting;
  for (const Waiting& job : queue) {
    if (!fits(job.need, held, machine)) break;
    held += job.need;
    starting.push_back(job.name);
  }
  return starting;
}

std::string why_waiting(const Waiting& waiting, const std::vector<Waiting>& ahead,
                        const std::vector<Waiting>& holding, const Machine& machine) {
  Need held = sum(holding);
  std::string names;
  for (const Waiting& job : holding) names += (names.empty() ? "" : ", ") + job.name;
  std::string by = names.empty() ? std::string() : " (held by " + names + ")";
  if (held.cores + waiting.need.cores > machine.cores + kSlack)
    return "needs " + number(waiting.need.cores, 2) + " cores, " + number(machine.cores - held.cores, 2) +
           " are free" + by;
  if (held.memory_bytes + waiting.need.memory_bytes > machine.memory_bytes)
    return "needs " + number(static_cast<double>(waiting.need.memory_bytes) / kGiB, 1) + " GiB, " +
           number(static_cast<double>(machine.memory_bytes - held.memory_bytes) / kGiB, 1) + " are free" + by;
  if (held.gpus + waiting.need.gpus > machine.gpus)
    return "needs " + std::to_string(waiting.need.gpus) + accelerators(waiting.need.gpus) + ", " +
           std::to_string(machine.gpus - held.gpus) + " are free" + by;
  if (!ahead.empty()) return "waits behind " + ahead.front().name;
  return "starts next";
}

}  // namespace stoker::control
