// SPDX-License-Identifier: Apache-2.0
#include "api/prometheus.h"

#include <cmath>

#include "api/live.h"

namespace stoker::api {
namespace {

using Labels = Exposition::Labels;
constexpr auto kCounter = Exposition::Type::kCounter;
constexpr auto kGauge = Exposition::Type::kGauge;

// A label's value between its quotes.
std::string escaped(const std::string& value) {
  std::string out;
  for (char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

// A number of a teller's line, which metric it is, and what it counts.
struct Told {
  const char* key;
  const char* name;
  Exposition::Type type;
  const char* help;
};

constexpr Told kInstance[] = {
    {"cpu_s", "stoker_instance_cpu_seconds_total", kCounter, "CPU time of all processes of the instance."},
    {"throttled_s", "stoker_instance_cpu_throttled_seconds_total", kCounter,
     "Time that the instance's CPU quota held its processes back."},
    {"memory_bytes", "stoker_instance_memory_bytes", kGauge,
     "Memory in use, without file cache that would be given back at once."},
};
constexpr Told kLoader[] = {
    {"batches", "stoker_loader_batches_total", kCounter, "Batches handed to the training loop."},
    {"samples", "stoker_loader_samples_total", kCounter, "Samples handed to the training loop."},
    {"epochs", "stoker_loader_epochs_total", kCounter, "Epochs read to their end."},
    {"steps", "stoker_loader_steps_total", kCounter, "Intervals between two batches of one epoch."},
    {"step_s", "stoker_loader_step_seconds_total", kCounter, "Time that those intervals took."},
    {"wait_s", "stoker_loader_wait_seconds_total", kCounter,
     "The part of the steps' time that the training loop waited for a batch."},
    {"first_wait_s", "stoker_loader_first_wait_seconds_total", kCounter,
     "Time waited for the first batch of each epoch, which is in no step."},
    {"trainer_cpu_s", "stoker_loader_trainer_cpu_seconds_total", kCounter,
     "CPU time of the training process without the data work done in it."},
    {"data_cpu_s", "stoker_loader_data_cpu_seconds_total", kCounter,
     "CPU time of data work on the training machine."},
};
constexpr Told kFed[] = {
    {"received_bytes", "stoker_loader_received_bytes_total", kCounter, "Bytes that came from feed workers."},
    {"held_bytes", "stoker_loader_held_bytes", kGauge,
     "Bytes of batches on their way, waiting, or kept by the user."},
    {"hedged", "stoker_loader_hedged_requests_total", kCounter,
     "Requests made of a second worker because the first was late."},
    {"retried", "stoker_loader_retried_requests_total", kCounter, "Requests made again after an error."},
    {"lost", "stoker_loader_lost_workers_total", kCounter, "Feed workers that were lost."},
    {"spare_samples", "stoker_loader_spare_samples_total", kCounter,
     "Samples that spare cores of the training machine made."},
    {"starved_s", "stoker_loader_starved_seconds_total", kCounter,
     "Time in which answers had begun to come and the wire had nothing more of them."},
};
constexpr Told kWorker[] = {
    {"samples", "stoker_feed_worker_samples_total", kCounter, "Samples made."},
    {"cpu_s", "stoker_feed_worker_cpu_seconds_total", kCounter, "CPU time of the worker and its children."},
    {"sent_bytes", "stoker_feed_worker_sent_bytes_total", kCounter, "Bytes sent to clients."},
    {"unsent_bytes", "stoker_feed_worker_unsent_bytes", kGauge, "Bytes that sockets have not taken yet."},
    {"held_bytes", "stoker_feed_worker_held_bytes", kGauge,
     "Bytes of samples that are made or wait to be sent."},
    {"requests", "stoker_feed_worker_requests", kGauge, "Requests not yet answered."},
    {"clients", "stoker_feed_worker_clients", kGauge, "Clients that are connected."},
};

std::string number_text(double value) {
  constexpr double kWhole = 9e15;  // as far as a double counts
  const bool whole = std::floor(value) == value && std::abs(value) < kWhole;
  return whole ? std::to_string(static_cast<int64_t>(value)) : Json(value).dump();
}

Labels with(Labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

// What a line of an older teller lacks has no sample.
template <size_t N>
void add(Exposition& out, const Told (&told)[N], const Span& span, const Labels& labels) {
  for (const Told& one : told)
    if (span.now()[one.key].is_number()) out.add(one.name, one.type, one.help, labels, span.count(one.key));
}

void add_errors(Exposition& out, const char* name, const char* help, const Span& span, const Labels& labels) {
  for (const std::string& kind : error_kinds())
    if (const Json& count = span.now()["errors"][kind]; count.is_number())
      out.add(name, kCounter, help, with(labels, "kind", kind), count.as_double());
}

void add_instance(Exposition& out, const RecentJob& job, const RecentInstance& instance,
                  const Labels& labels) {
  const control::JobGroup* group = job.job.spec.find_group(instance.host.group);
  if (!group) return;
  const double cpu_scale = job.job.spec.cpu_scale;
  out.add("stoker_instance_cpu_limit_cores", kGauge, "Cores that the instance may use.", labels,
          group->type.cores(cpu_scale));
  out.add("stoker_instance_memory_limit_bytes", kGauge, "Memory that the instance may use.", labels,
          static_cast<double>(group->type.memory(cpu_scale)));
  if (group->type.gpus > 0)
    out.add("stoker_instance_accelerators", kGauge, "Accelerators that the instance's type has.",
            with(labels, "accelerator", job.emulated ? "emulated" : "real"),
            static_cast<double>(group->type.gpus));
  if (instance.usage) add(out, kInstance, *instance.usage, labels);
  for (const Teller& loader : instance.loaders) {
    const Labels own = with(with(labels, "process", loader.process), "loader", loader.loader);
    add(out, kLoader, loader.span, own);
    add_errors(out, "stoker_loader_errors_total", "What went wrong, by kind.", loader.span, own);
    if (loader.span.now()["fed"].is_object()) add(out, kFed, loader.span.of("fed"), own);
  }
  for (const Teller& worker : instance.workers) {
    const Labels own = with(labels, "process", worker.process);
    add(out, kWorker, worker.span, own);
    add_errors(out, "stoker_feed_worker_errors_total", "What clients were told went wrong, by kind.",
               worker.span, own);
  }
}

}  // namespace

void Exposition::add(const std::string& name, Type type, const char* help, const Labels& labels,
                     double value) {
  auto [place, is_new] = places_.try_emplace(name, metrics_.size());
  if (is_new) {
    const char* word = type == Type::kCounter ? "counter" : "gauge";
    metrics_.push_back({name, "# HELP " + name + " " + help + "\n# TYPE " + name + " " + word + "\n", {}});
  }
  Metric& metric = metrics_[place->second];
  metric.samples += name;
  const char* before = "{";
  for (const auto& [label, text] : labels) {
    metric.samples += before + std::string(label) + "=\"" + escaped(text) + "\"";
    before = ",";
  }
  metric.samples += (labels.empty() ? " " : "} ") + number_text(value) + "\n";
}

std::string Exposition::text() const {
  std::string out;
  for (const Metric& metric : metrics_) out += metric.head + metric.samples;
  return out;
}

std::string prometheus_text(const ServerFigures& server, const std::vector<RecentJob>& jobs) {
  Exposition out;
  out.add("stoker_server_info", kGauge, "Always 1; the server's version.", {{"version", server.version}}, 1);
  for (const auto& [phase, count] : server.jobs)
    out.add("stoker_jobs", kGauge, "Jobs that are not over, by phase.", {{"phase", phase}},
            static_cast<double>(count));
  for (const RecentJob& job : jobs) {
    const std::string& name = job.job.spec.name;
    for (const RecentInstance& instance : job.instances)
      add_instance(out, job, instance,
                   {{"job", name}, {"group", instance.host.group}, {"instance", instance.host.name}});
    for (const control::JobGroup& group : job.job.spec.groups) {
      if (!group.is_loader_feed()) continue;
      const Labels labels = {{"job", name}, {"group", group.spec.name}};
      int64_t running = 0;
      for (const RecentInstance& instance : job.instances)
        running +=
            instance.host.group == group.spec.name && instance.host.phase == control::HostPhase::kRunning;
      out.add("stoker_feed_instances", kGauge, "Instances of the feed group that run.", labels,
              static_cast<double>(running));
      const Json sizing = sizing_of(job, group.spec);
      if (!sizing["wanted"].is_int()) continue;
      out.add("stoker_feed_workers_wanted", kGauge, "Workers that the dispatcher wants of the feed group.",
              labels, sizing["wanted"].as_double());
      out.add("stoker_feed_workers", kGauge, "Workers of the feed group that the dispatcher knows.", labels,
              sizing["workers"].as_double());
    }
  }
  return out.text();
}

}  // namespace stoker::api
