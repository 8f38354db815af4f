// SPDX-License-Identifier: Apache-2.0
#include "api/live.h"

#include <algorithm>
#include <map>

#include "control/advice.h"

namespace stoker::api {
namespace {

// A figure that nobody has told is null, also in a sum of which no part is known.
using Figure = std::optional<double>;

void add(Figure& sum, const Figure& part) {
  if (part) sum = sum.value_or(0) + *part;
}
Json to_json(const Figure& figure) { return figure ? Json(*figure) : Json(); }
Json whole(const Figure& figure) { return figure ? Json(static_cast<int64_t>(*figure)) : Json(); }

// Of an instance, or of all instances of a group.
struct Figures {
  Figure cpu_percent, memory_bytes;
  double cpu_percent_max = 0, memory_limit_bytes = 0, accelerators = 0;
  // Of loaders: steps of each of the processes that take some, times of all of them.
  Figure steps_per_s, samples_per_s, step_s, wait_s;
  double stepping = 0;
  // Of loaders that are fed, and of feed workers. Bytes go from these to those.
  Figure received_per_s, starved, sent_per_s, queue_bytes, hedged, lost, damaged;
  Figure spare_per_s;  // samples by spare cores of training machines
  std::map<std::string, double> errors;

  void add(const Figures& other) {
    for (auto part :
         {&Figures::cpu_percent, &Figures::memory_bytes, &Figures::steps_per_s, &Figures::samples_per_s,
          &Figures::step_s, &Figures::wait_s, &Figures::received_per_s, &Figures::sent_per_s,
          &Figures::queue_bytes, &Figures::hedged, &Figures::lost, &Figures::damaged, &Figures::spare_per_s})
      api::add(this->*part, other.*part);
    if (other.starved) starved = std::max(starved.value_or(0), *other.starved);
    cpu_percent_max += other.cpu_percent_max;
    memory_limit_bytes += other.memory_limit_bytes;
    accelerators += other.accelerators;
    stepping += other.stepping;
    for (auto& [kind, count] : other.errors) errors[kind] += count;
  }
};

void add_errors(const Span& span, Figures& to) {
  for (const std::string& kind : error_kinds())
    if (const double count = span.now()["errors"][kind].as_double(); count > 0) to.errors[kind] += count;
}

// A loop that has been in one step for a while has told of it in now_s and now_wait_s.
void add_loader(const Teller& loader, Figures& to, std::map<std::string, double>& steps) {
  const Span& span = loader.span;
  add(to.samples_per_s, span.rate("samples"));
  if (auto rate = span.rate("steps")) {
    const auto sum = [&](std::initializer_list<const char*> keys) {
      double before = 0, now = 0;
      for (const char* key : keys) {
        now += span.count(key);
        before += span.before(key);
      }
      return std::max(now - before, 0.0);
    };
    const double time_s = sum({"step_s", "first_wait_s", "now_s"});
    if (time_s > 0) steps[loader.process] += *rate;
    add(to.step_s, time_s);
    add(to.wait_s, std::min(sum({"wait_s", "first_wait_s", "now_wait_s"}), time_s));
  }
  add_errors(span, to);
  if (!span.now()["fed"].is_object()) return;
  const Span fed = span.of("fed");
  add(to.received_per_s, fed.rate("received_bytes"));
  if (auto share = fed.rate("starved_s"))
    to.starved = std::max(to.starved.value_or(0), std::min(*share, 1.0));
  add(to.queue_bytes, fed.count("held_bytes"));
  add(to.spare_per_s, fed.rate("spare_samples"));
  add(to.hedged, fed.count("hedged"));
  add(to.lost, fed.count("lost"));
  add(to.damaged, fed.count("damaged"));
}

Figures figures_of(const RecentInstance& instance, const control::JobGroup& group, double cpu_scale) {
  Figures out;
  const double scale = group.type.is_here ? 1 : cpu_scale;
  out.cpu_percent_max = 100 * static_cast<double>(group.type.vcpus);
  out.memory_limit_bytes = static_cast<double>(group.type.memory(cpu_scale));
  out.accelerators = static_cast<double>(group.type.gpus);
  if (instance.usage) {
    // As the published metric: the sum over vCPUs, so that 8 busy vCPUs show 800 %.
    if (auto cores = instance.usage->rate("cpu_s")) out.cpu_percent = *cores / scale * 100;
    out.memory_bytes = instance.usage->count("memory_bytes");
  }
  std::map<std::string, double> steps;  // by process
  for (const Teller& loader : instance.loaders) add_loader(loader, out, steps);
  for (const auto& [process, rate] : steps) add(out.steps_per_s, rate);
  out.stepping = static_cast<double>(steps.size());
  if (!out.steps_per_s && out.step_s) out.steps_per_s = 0;
  for (const Teller& worker : instance.workers) {
    add(out.samples_per_s, worker.span.rate("samples"));
    add(out.sent_per_s, worker.span.rate("sent_bytes"));
    add(out.queue_bytes, worker.span.count("held_bytes"));
    add_errors(worker.span, out);
  }
  return out;
}

void put(const Figures& figures, bool emulated, Json& out) {
  out.set("cpu_percent", to_json(figures.cpu_percent)).set("cpu_percent_max", figures.cpu_percent_max);
  out.set("memory_bytes", whole(figures.memory_bytes));
  out.set("memory_limit_bytes", static_cast<int64_t>(figures.memory_limit_bytes));
  out.set("accelerators", static_cast<int64_t>(figures.accelerators));
  out.set("accelerator", figures.accelerators == 0 ? Json() : Json(emulated ? "emulated" : "real"));
  // Ranks step together: of one process.
  Figure steps = figures.steps_per_s;
  if (steps && figures.stepping > 0) steps = *steps / figures.stepping;
  out.set("steps_per_s", to_json(steps)).set("samples_per_s", to_json(figures.samples_per_s));
  const bool known = figures.step_s && *figures.step_s > 0;
  out.set("waiting", known ? Json(*figures.wait_s / *figures.step_s) : Json());
  out.set("received_bytes_per_s", to_json(figures.received_per_s));
  out.set("link_busy", to_json(figures.starved));
  out.set("sent_bytes_per_s", to_json(figures.sent_per_s)).set("queue_bytes", whole(figures.queue_bytes));
  out.set("hedged", whole(figures.hedged)).set("lost", whole(figures.lost));
  out.set("damaged", whole(figures.damaged));
  out.set("spare_samples_per_s", to_json(figures.spare_per_s));
  Json errors = Json::Object{};
  for (auto& [kind, count] : figures.errors) errors.set(kind, static_cast<int64_t>(count));
  out.set("errors", std::move(errors));
}

const char* phase_of(const control::HostState& host) {
  switch (host.phase) {
    case control::HostPhase::kQueued:
      return "queued";
    case control::HostPhase::kPreparing:
      return "preparing";
    case control::HostPhase::kRunning:
      return "running";
    case control::HostPhase::kEnded:
      return "ended";
    case control::HostPhase::kReleased:
      break;
  }
  return "released";
}

Json worker_json(const Teller& worker, double cpu_scale) {
  const Span& span = worker.span;
  Json out;
  out.set("process", worker.process).set("samples_per_s", to_json(span.rate("samples")));
  auto cores = span.rate("cpu_s");
  out.set("cpu_percent", cores ? Json(*cores / cpu_scale * 100) : Json());
  out.set("sent_bytes_per_s", to_json(span.rate("sent_bytes")));
  out.set("unsent_bytes", span.now()["unsent_bytes"].as_int())
      .set("queue_bytes", span.now()["held_bytes"].as_int());
  out.set("requests", span.now()["requests"].as_int()).set("clients", span.now()["clients"].as_int());
  return out;
}

// Whether samples come no faster because of the wire, by the rule of advise: it is waited for more than half
// of the time, and for more of it than the loop spends on its own and than the feed workers spend on making
// samples. Senders that are held back by their quota make a wire look slow too.
bool link_binds(const RecentJob& job, const Figures& group) {
  if (group.starved.value_or(0) <= control::kLinkBusy) return false;
  Figures feed;
  for (const RecentInstance& instance : job.instances)
    for (const control::JobGroup& other : job.job.spec.groups)
      if (other.spec.name == instance.host.group && other.is_loader_feed())
        feed.add(figures_of(instance, other, job.job.spec.cpu_scale));
  const double making =
      feed.cpu_percent && feed.cpu_percent_max > 0 ? *feed.cpu_percent / feed.cpu_percent_max : 0;
  const double own = group.step_s && *group.step_s > 0 ? 1 - *group.wait_s / *group.step_s : 0;
  return *group.starved > control::kWorthwhile * std::max(making, own);
}

Json group_json(const RecentJob& job, const control::JobGroup& group) {
  const double cpu_scale = job.job.spec.cpu_scale;
  Json out;
  out.set("group", group.spec.name).set("role", agent::role_name(group.spec.role));
  out.set("instance_type", group.type.name);
  Figures all;
  Json::Array hosts;
  int64_t running = 0;
  for (const RecentInstance& instance : job.instances) {
    if (instance.host.group != group.spec.name) continue;
    const Figures figures = figures_of(instance, group, cpu_scale);
    all.add(figures);
    running += instance.host.phase == control::HostPhase::kRunning;
    Json host;
    host.set("host", instance.host.name).set("phase", phase_of(instance.host));
    put(figures, job.emulated, host);
    if (group.is_loader_feed()) {
      Json::Array workers;
      for (const Teller& worker : instance.workers)
        workers.push_back(worker_json(worker, group.type.is_here ? 1 : cpu_scale));
      host.set("workers", std::move(workers));
    }
    hosts.push_back(std::move(host));
  }
  put(all, job.emulated, out);
  out.set("link_binds", link_binds(job, all));
  out.set("instances", static_cast<int64_t>(hosts.size())).set("running", running);
  if (group.is_loader_feed()) {
    const Json sizing = sizing_of(job, group.spec);
    out.set("wanted", sizing["wanted"].is_int() ? sizing["wanted"] : Json());
    out.set("why", sizing["reason"].as_string());
  }
  out.set("hosts", std::move(hosts));
  return out;
}

}  // namespace

const std::vector<std::string>& error_kinds() {
  static const std::vector<std::string> kinds = {
      "corrupt",   "damaged",   "disagreed",    "empty",         "lost",       "no_space",    "not_image",
      "other",     "python",    "refused_plan", "refused_token", "skipped",    "substituted", "timeout",
      "too_large", "truncated", "unavailable",  "unreadable",    "unsupported"};
  return kinds;
}

Json live_json(const RecentJob& job, double now_s) {
  const control::JobState& state = job.job.state;
  Json out;
  out.set("job", job.job.spec.name).set("phase", control::phase_name(state.phase));
  const int64_t since_ms = state.running_ms > 0 ? state.running_ms : state.created_ms;
  const double until_s = state.over_ms > 0 ? static_cast<double>(state.over_ms) / 1000 : now_s;
  out.set("since_s", std::max(until_s - static_cast<double>(since_ms) / 1000, 0.0));
  out.set("cpu_scale", job.job.spec.cpu_scale);
  Json::Array groups;
  for (const control::JobGroup& group : job.job.spec.groups) groups.push_back(group_json(job, group));
  out.set("groups", std::move(groups));
  return out;
}

}  // namespace stoker::api
