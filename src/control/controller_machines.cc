// SPDX-License-Identifier: Apache-2.0
// The controller's dealings with machines: what an instance is told, who gets one and when.
#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/log.h"
#include "base/system_random.h"
#include "control/controller.h"
#include "control/network.h"
#include "control/resizing.h"

namespace stoker::control {

namespace {

constexpr int kFeedPort = 7170;

// Whose dispatchers a group talks to: a feed group those of all it serves, a group that is fed its own.
std::vector<std::string> fed_groups(const JobSpec& spec, const JobGroup& group) {
  if (group.is_loader_feed()) return group.spec.serves;
  for (const JobGroup& helper : spec.groups) {
    const auto& served = helper.spec.serves;
    if (helper.is_loader_feed() && std::find(served.begin(), served.end(), group.spec.name) != served.end())
      return {group.spec.name};
  }
  return {};
}

std::string first_host(const JobState& state, const std::string& group) {
  for (const HostState& host : state.hosts)
    if (host.group == group && host.rank == 0) return host.name;
  return {};
}

}  // namespace

std::string Controller::free_subnet() {
  std::vector<std::string> taken;
  for (Job* job : order_)
    if (!job->subnet.empty()) taken.push_back(job->subnet);
  return pick_subnet(random_number(), taken);
}

void Controller::place(Job& job) {
  Status placed = change(job, Placed{});
  if (!placed.ok()) {
    log_line(LogLevel::kError, "control", "cannot start " + job.name() + ": " + placed.error().message);
    return schedule_in(std::chrono::seconds(1));
  }
  job.waiting_for.clear();
  job.subnet = free_subnet();
  char bridge[16];
  std::snprintf(bridge, sizeof bridge, "sk%012llx", static_cast<unsigned long long>(random_number() >> 16));
  job.bridge = bridge;
  for (const HostState& host : job.state().hosts) number(job, host);
  Status folders = make_folders(job);
  int64_t gpus_left = need_of(job.spec(), options_.machine).gpus;
  for (const HostState& host : job.state().hosts) {
    int64_t gpus = std::min(gpus_left, job.spec().find_group(host.group)->type.gpus);
    gpus_left -= gpus;
    acquire(job, host, gpus, folders);
  }
  write_record(job);
}

Status Controller::make_folders(const Job& job) const {
  for (const char* name : {"run", "model", "checkpoints", "metrics"})
    STOKER_TRY(make_directories(job.folder + "/" + name));
  for (const HostState& host : job.state().hosts) STOKER_TRY(make_folders(job, host));
  if (!job.spec().has_role(agent::Role::kFeed)) return ok();
  uint8_t token[32];
  fill_random(token);
  return write_file_atomic(job.folder + "/feed-token", as_bytes(to_hex(token) + "\n"), 0400);
}

Status Controller::make_folders(const Job& job, const HostState& host) const {
  STOKER_TRY(make_directories(job.folder + "/logs/" + host.group));
  STOKER_TRY(make_directories(job.folder + "/output/" + host.name + "/data"));
  return make_directories(job.folder + "/telemetry/" + host.name);
}

// The next number that no living instance of the job has; .1 is the bridge.
void Controller::number(Job& job, const HostState& host) {
  std::set<int> taken;
  for (const HostState& other : job.state().hosts)
    if (other.phase != HostPhase::kReleased && job.numbers.count(other.name))
      taken.insert(job.numbers[other.name]);
  int free = 2;
  while (taken.count(free)) ++free;
  job.numbers[host.name] = free;
}

void Controller::acquire(Job& job, const HostState& host, int64_t gpus, Status ready) {
  job.links[host.name];
  if (ready.ok()) {
    auto made = assignment(job, host, gpus);
    ready = made.ok() ? provider_->acquire(agent_id(job.name(), host.name), *made)
                      : Status(std::move(made).error());
  }
  if (ready.ok()) return heard(agent_id(job.name(), host.name));
  // Not while the job's hosts are being gone through.
  loop_.post(
      [this, name = job.name(), host = host.name, why = ready.error().message] { lose(name, host, why); });
}

// Groups of MIN..MAX instances get what is left when nobody waits for machines, and are told once that there
// is nothing: a job in the queue must not wait longer for what makes another one faster.
void Controller::resize(Job& job, const std::vector<Waiting>& queue, std::vector<Waiting>& holding) {
  if (job.over()) return;
  const int64_t now = clock_.wall_ms();
  for (Resized next : next_resizes(job.spec(), job.state(), now)) {
    const int64_t there = job.state().instances(next.group);
    if (next.to > there) {
      if (!unwritten_.empty()) continue;  // looked at again when the table is written
      const Waiting one{job.name(), need_of_one(job.spec(), *job.spec().find_group(next.group))};
      const int64_t more =
          queue.empty() ? how_many_fit(one.need, next.to - there, holding, options_.machine) : 0;
      if (more == 0) {
        const std::string why = queue.empty() ? why_waiting(one, {}, holding, options_.machine)
                                              : "waits behind " + queue.front().name + ", which is queued";
        if (!job.state().sizes.at(next.group).told_not_free)
          keep_trying(change(job, NotFree{next.group, why}));
        continue;
      }
      next.to = there + more;
    }
    resize(job, next, holding);
  }
  if (auto at = next_try_ms(job.state(), now)) schedule_in(std::chrono::milliseconds(*at - now));
}

void Controller::resize(Job& job, const Resized& to, std::vector<Waiting>& holding) {
  const size_t before = job.state().hosts.size();
  if (Status resized = change(job, to); !resized.ok()) return keep_trying(resized);
  for (size_t i = before; i < job.state().hosts.size(); ++i) number(job, job.state().hosts[i]);
  for (size_t i = before; i < job.state().hosts.size(); ++i) {
    const HostState& host = job.state().hosts[i];
    acquire(job, host, need_of_one(job.spec(), *job.spec().find_group(host.group)).gpus,
            make_folders(job, host));
  }
  for (Waiting& entry : holding)
    if (entry.name == job.name()) entry.need = held_by(job.spec(), job.state(), options_.machine);
  write_record(job);
}

// What a group has beyond its MIN goes back for the job that would start next.
void Controller::yield_to(const Waiting& front, std::vector<Waiting>& holding) {
  std::vector<Holder> holders;
  for (Job* job : order_)
    if (!job->over() && job->state().phase != JobPhase::kQueued)
      holders.push_back({job->name(), job->spec(), job->state()});
  for (const Yield& yield : make_room(front, holders, options_.machine))
    resize(*jobs_[yield.job], yield.to, holding);
}

void Controller::keep_trying(const Status& written) {
  if (written.ok()) return;
  log_line(LogLevel::kError, "control", written.error().message);
  schedule_in(std::chrono::seconds(1));
}

// One timer, the earliest that was asked for: each look at the queue asks for the next one.
void Controller::schedule_in(std::chrono::milliseconds wait) {
  const auto due = std::chrono::steady_clock::now() + wait;
  if (next_schedule_ && next_schedule_->due <= due) return;
  if (next_schedule_) loop_.cancel(next_schedule_->timer);
  next_schedule_ = {due, loop_.after(wait, [this] {
                      next_schedule_.reset();
                      schedule();
                    })};
}

Result<agent::Assignment> Controller::assignment(const Job& job, const HostState& host, int64_t gpus) const {
  const JobSpec& spec = job.spec();
  const JobGroup& group = *spec.find_group(host.group);
  agent::Assignment out;
  out.job = job.name();
  out.host = host.name;
  out.group = host.group;
  out.rank = host.rank;
  out.role = group.spec.role;
  out.instance_type = group.type.name;
  out.vcpus = group.type.vcpus;
  out.cores = group.type.cores(spec.cpu_scale);
  out.memory_bytes = group.type.memory(spec.cpu_scale);
  out.gpus = gpus;
  auto is_there = [](const HostState& other) { return other.phase != HostPhase::kReleased; };
  for (const HostState& other : job.state().hosts)
    if (is_there(other)) out.addresses[other.name] = job.subnet + std::to_string(job.numbers.at(other.name));
  for (const JobGroup& listed : spec.groups) {
    agent::Group entry{listed.spec.name, listed.type.name, listed.spec.role, {}, listed.spec.serves};
    for (const HostState& other : job.state().hosts)
      if (other.group == listed.spec.name && is_there(other)) entry.hosts.push_back(other.name);
    out.groups.push_back(std::move(entry));
  }
  out.network = {job.bridge, out.addresses[host.name], job.subnet + "1", 24, 1500, false};
  out.job_dir = job.folder;
  out.stoker_home = options_.home;
  out.code_dir = job.folder + "/code";
  if (group.entry != agent::Entry{})
    out.entry = group.entry;
  else if (!group.is_loader_feed())
    out.entry = {spec.script, {}, spec.script_arguments()};
  out.hyperparameters = spec.hyperparameters;
  out.environment = spec.environment;
  for (const JobInput& input : spec.inputs) {
    bool wanted = input.groups.empty() ||
                  std::find(input.groups.begin(), input.groups.end(), host.group) != input.groups.end();
    if (wanted) out.channels.push_back({input.name, input.folder, true});
  }
  out.python = spec.python;
  out.requirements_file = spec.requirements;
  for (const std::string& fed : fed_groups(spec, group))
    out.feed.dispatchers.push_back(first_host(job.state(), fed) + ":" + std::to_string(kFeedPort));
  if (!out.feed.dispatchers.empty()) out.feed.token_file = job.folder + "/feed-token";
  out.feed.joins = host.extra;
  out.feed.sized = std::any_of(spec.groups.begin(), spec.groups.end(), [&](const JobGroup& helper) {
    return helper.spec.elastic() && helper.spec.serves.front() == host.group;
  });
  out.uid = ::getuid();
  out.gid = ::getgid();
  out.grace_s = spec.grace_s;
  return out;
}

}  // namespace stoker::control
