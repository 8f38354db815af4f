// SPDX-License-Identifier: Apache-2.0
#include "api/figures.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "telemetry/series.h"

namespace stoker::api {
namespace {

using control::GroupFigures;
using control::JobFigures;

// First and last line of one loader between which it took steps.
struct Span {
  Json first, last;
  bool found = false;

  double change(const char* key) const { return last[key].as_double() - first[key].as_double(); }
};

Result<std::vector<std::vector<Json>>> read_files(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    // The script may write there: reading a pipe of its making would never end.
    if (entry.path().filename().string().starts_with(prefix) && !entry.is_symlink(missing) &&
        entry.is_regular_file(missing))
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::vector<std::vector<Json>> files;
  for (const std::string& path : paths) {
    STOKER_ASSIGN(std::vector<Json> lines, telemetry::read_lines(path));
    files.push_back(std::move(lines));
  }
  return files;
}

// The loader that took most steps: the training one, where a script has another for validation.
Span main_loader(const std::vector<std::vector<Json>>& files) {
  Span best;
  for (const auto& lines : files) {
    std::map<int64_t, Span> loaders;  // by the loader's number within its process
    for (const Json& line : lines) {
      if (line["steps"].as_int() < 1) continue;
      Span& span = loaders[line["loader"].as_int()];
      if (!span.found) span.first = line;
      span.found = true;
      span.last = line;
    }
    for (auto& [number, span] : loaders)
      if (!best.found || span.last["steps"].as_int() > best.last["steps"].as_int()) best = span;
  }
  // A run too short for two lines: from its start.
  if (best.found && best.change("steps") < 1) best.first = Json(Json::Object{{"t", best.last["t"]}});
  return best;
}

struct DataCpu {
  double cpu_s = 0;
  double samples = 0;
};

// Feed workers: from their first finished samples on, so that importing the user's libraries is not counted.
DataCpu feed_cpu(const std::vector<std::vector<Json>>& files) {
  DataCpu sum;
  for (const auto& lines : files) {
    const Json* first = nullptr;
    for (const Json& line : lines)
      if (!first && line["samples"].as_double() > 0) first = &line;
    if (!first) continue;
    sum.cpu_s += lines.back()["cpu_s"].as_double() - (*first)["cpu_s"].as_double();
    sum.samples += lines.back()["samples"].as_double() - (*first)["samples"].as_double();
  }
  return sum;
}

// CPU seconds per second between two times, by the samples nearest to them.
double cores_between(const std::vector<telemetry::UsageSample>& series, double from, double to) {
  if (series.size() < 2) return 0;
  auto at = [&](double t) {
    auto later =
        std::lower_bound(series.begin(), series.end(), t, [](const auto& s, double t) { return s.t < t; });
    if (later == series.end()) return series.size() - 1;
    return static_cast<size_t>(later - series.begin());
  };
  size_t a = at(from), b = at(to);
  if (a == b) return telemetry::mean_cores(series);
  return (series[b].cpu_s - series[a].cpu_s) / (series[b].t - series[a].t);
}

}  // namespace

Result<JobFigures> read_figures(const control::StoredJob& job, const std::string& job_folder) {
  JobFigures figures;
  figures.job = job.spec.name;
  figures.cpu_scale = job.spec.cpu_scale;
  DataCpu local, feed;
  int trainers = 0;
  double from = 0, to = 0, trainer_cpu_s = 0;
  for (const control::HostState& host : job.state.hosts) {
    const control::JobGroup* group = job.spec.find_group(host.group);
    if (!group) continue;
    std::string folder = job_folder + "/telemetry/" + host.name;
    if (group->spec.role == agent::Role::kFeed) {
      STOKER_ASSIGN(auto files, read_files(folder, "feed-"));
      DataCpu used = feed_cpu(files);
      feed.cpu_s += used.cpu_s;
      feed.samples += used.samples;
      continue;
    }
    STOKER_ASSIGN(auto files, read_files(folder, "loader-"));
    Span span = main_loader(files);
    if (!span.found) continue;
    ++trainers;
    figures.steps += static_cast<int64_t>(span.change("steps"));
    figures.window_s += span.change("step_s");
    figures.wait_s += span.change("wait_s");
    figures.samples_per_step += span.last["batch_size"].as_double();
    trainer_cpu_s += span.change("trainer_cpu_s") / std::max(1.0, span.change("batches"));
    local.cpu_s += span.change("data_cpu_s");
    local.samples += span.change("samples");
    from = from == 0 ? span.first["t"].as_double() : std::min(from, span.first["t"].as_double());
    to = std::max(to, span.last["t"].as_double());
  }
  if (trainers == 0 || figures.steps == 0)
    return invalid(
        "job " + figures.job +
        " has no measured steps: its script must use stoker.DataLoader and take at least three batches");
  // Of one training process: their steps are taken together.
  figures.steps /= trainers;
  figures.window_s /= trainers;
  figures.wait_s /= trainers;
  figures.trainer_cpu_s_per_step = trainer_cpu_s / trainers;
  bool fed = feed.samples > 0;
  const DataCpu& data = fed ? feed : local;
  if (data.samples > 0) figures.data_cpu_s_per_sample = data.cpu_s / data.samples;
  figures.data_cpu_covers = fed ? "the feed workers and their children" : "the loader's worker processes";

  for (const control::JobGroup& group : job.spec.groups) {
    GroupFigures out;
    out.name = group.spec.name;
    out.instance_type = group.type.name;
    out.role = agent::role_name(group.spec.role);
    out.count = static_cast<int>(group.spec.count);
    out.vcpus = static_cast<double>(group.type.vcpus);
    out.accelerators = static_cast<int>(group.type.gpus);
    out.price_per_hour = group.type.price_per_hour.value_or(0);
    out.cores = group.type.cores(job.spec.cpu_scale);
    for (const control::HostState& host : job.state.hosts) {
      if (host.group != group.spec.name) continue;
      STOKER_ASSIGN(auto series, telemetry::read_series(job_folder + "/metrics/" + host.name + ".jsonl"));
      out.cpu_s += cores_between(series, from, to) * figures.window_s;
    }
    figures.groups.push_back(std::move(out));
  }
  return figures;
}

}  // namespace stoker::api
