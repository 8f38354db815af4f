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

double change(const Json& from, const Json& to, const char* key) {
  return to[key].as_double() - from[key].as_double();
}

// The lines of one loader between which it took steps.
struct Span {
  std::vector<Json> lines;

  const Json& first() const { return lines.front(); }
  const Json& last() const { return lines.back(); }
  double change(const char* key) const { return api::change(first(), last(), key); }
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
    for (const Json& line : lines)
      if (line["steps"].as_int() >= 1) loaders[line["loader"].as_int()].lines.push_back(line);
    for (auto& [number, span] : loaders)
      if (best.lines.empty() || span.last()["steps"].as_int() > best.last()["steps"].as_int())
        best = std::move(span);
  }
  // A run too short for two lines: from its start.
  if (!best.lines.empty() && best.change("steps") < 1)
    best.lines = {Json(Json::Object{{"t", best.last()["t"]}}), best.last()};
  return best;
}

// CPU seconds of units of work: of all of them, and what they would have taken undisturbed.
struct WorkCpu {
  double cpu_s = 0;
  double undisturbed_s = 0;
  double units = 0;

  void add(const std::vector<Json>& lines, const char* cpu_key, const char* unit_key) {
    const double more = change(lines.front(), lines.back(), unit_key);
    cpu_s += change(lines.front(), lines.back(), cpu_key);
    std::vector<control::Progress> progress;
    for (const Json& line : lines)
      progress.push_back({line[unit_key].as_double(), line[cpu_key].as_double()});
    undisturbed_s += control::undisturbed_cpu_s(progress) * more;
    units += more;
  }
  double mean() const { return units > 0 ? cpu_s / units : 0; }
  double undisturbed_mean() const { return units > 0 ? undisturbed_s / units : 0; }
};

// From a feed worker's first finished samples on, so that importing the user's libraries is not counted.
void add_feed_worker(const std::vector<Json>& lines, WorkCpu& work) {
  auto first = std::find_if(lines.begin(), lines.end(),
                            [](const Json& line) { return line["samples"].as_double() > 0; });
  if (first != lines.end()) work.add({first, lines.end()}, "cpu_s", "samples");
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
  WorkCpu local, feed, training;
  int trainers = 0;
  double from = 0, to = 0;
  for (const control::HostState& host : job.state.hosts) {
    const control::JobGroup* group = job.spec.find_group(host.group);
    if (!group) continue;
    std::string folder = job_folder + "/telemetry/" + host.name;
    if (group->spec.role == agent::Role::kFeed) {
      STOKER_ASSIGN(auto files, read_files(folder, "feed-"));
      for (const auto& lines : files) add_feed_worker(lines, feed);
      continue;
    }
    STOKER_ASSIGN(auto files, read_files(folder, "loader-"));
    const Span span = main_loader(files);
    if (span.lines.empty()) continue;
    ++trainers;
    figures.steps += static_cast<int64_t>(span.change("steps"));
    figures.window_s += span.change("step_s");
    figures.wait_s += span.change("wait_s");
    figures.samples_per_step += span.last()["batch_size"].as_double();
    training.add(span.lines, "trainer_cpu_s", "batches");
    local.add(span.lines, "data_cpu_s", "samples");
    from = from == 0 ? span.first()["t"].as_double() : std::min(from, span.first()["t"].as_double());
    to = std::max(to, span.last()["t"].as_double());
  }
  if (trainers == 0 || figures.steps == 0)
    return invalid(
        "job " + figures.job +
        " has no measured steps: its script must use stoker.DataLoader and take at least three batches");
  // Of one training process: their steps are taken together.
  figures.steps /= trainers;
  figures.window_s /= trainers;
  figures.wait_s /= trainers;
  figures.trainer_cpu_s_per_step = training.mean();
  figures.undisturbed_trainer_cpu_s_per_step = training.undisturbed_mean();
  const bool fed = feed.units > 0;
  const WorkCpu& data = fed ? feed : local;
  figures.data_cpu_s_per_sample = data.mean();
  figures.undisturbed_data_cpu_s_per_sample = data.undisturbed_mean();
  figures.data_cpu_covers = fed ? "the feed workers and their children" : "the loader's worker processes";
  figures.fed = fed;

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
