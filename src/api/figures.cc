// SPDX-License-Identifier: Apache-2.0
#include "api/figures.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "control/cost.h"
#include "telemetry/series.h"

namespace stoker::api {
namespace {

using control::GroupFigures;
using control::JobFigures;

constexpr size_t kMostFiles = 1024;  // of one host

// What is used of a line (docs/formats/telemetry.md): a script may write millions.
struct LoaderLine {
  double t = 0, steps = 0, step_s = 0, wait_s = 0, batches = 0, samples = 0, batch_size = 0;
  double trainer_cpu_s = 0, data_cpu_s = 0, starved_s = 0, received_bytes = 0, spare_samples = 0;
  double blocked_s = 0, loop_cpu_s = 0, client_cpu_s = 0, inline_cpu_s = 0, hands = 0, sample_bytes = 0;
};
struct FeedLine {
  double samples = 0, cpu_s = 0;
};

// The lines of one loader between which it took steps.
struct Span {
  std::vector<LoaderLine> lines;

  const LoaderLine& first() const { return lines.front(); }
  const LoaderLine& last() const { return lines.back(); }
  double change(double LoaderLine::*value) const { return last().*value - first().*value; }
};

std::vector<std::string> find_files(const std::string& folder, const std::string& prefix,
                                    telemetry::ReadBudget& budget) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    if (paths.size() == kMostFiles) {
      budget.spent = true;
      break;
    }
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The loader that took most steps: the training one, where a script has another for validation.
// `batches`: the most that one told of.
Result<Span> main_loader(const std::string& folder, telemetry::ReadBudget& budget,
                         std::optional<int64_t>& batches) {
  Span best;
  for (const std::string& path : find_files(folder, "loader-", budget)) {
    std::map<int64_t, Span> loaders;  // by the loader's number within its process
    STOKER_TRY(telemetry::read_lines(path, budget, [&](const Json& line) {
      batches = std::max(batches.value_or(0), line["batches"].as_int());
      if (line["steps"].as_int() < 1) return;
      loaders[line["loader"].as_int()].lines.push_back(
          {line["t"].as_double(), line["steps"].as_double(), line["step_s"].as_double(),
           line["wait_s"].as_double(), line["batches"].as_double(), line["samples"].as_double(),
           line["batch_size"].as_double(), line["trainer_cpu_s"].as_double(), line["data_cpu_s"].as_double(),
           line["fed"]["starved_s"].as_double(), line["fed"]["received_bytes"].as_double(),
           line["fed"]["spare_samples"].as_double(), line["blocked_s"].as_double(),
           line["loop_cpu_s"].as_double(), line["client_cpu_s"].as_double(), line["inline_cpu_s"].as_double(),
           line["hands"].as_double(), line["sample_bytes"].as_double()});
    }));
    for (auto& [number, span] : loaders)
      if (best.lines.empty() || span.last().steps > best.last().steps) best = std::move(span);
  }
  // A run too short for two lines: from its start.
  if (!best.lines.empty() && best.change(&LoaderLine::steps) < 1)
    best.lines = {LoaderLine{best.last().t}, best.last()};
  return best;
}

// CPU seconds of units of work: of all of them, and what they would have taken undisturbed.
struct WorkCpu {
  double cpu_s = 0;
  double undisturbed_s = 0;
  double units = 0;

  template <typename Line>
  void add(const std::vector<Line>& lines, double Line::*cpu, double Line::*unit) {
    const double more = lines.back().*unit - lines.front().*unit;
    cpu_s += lines.back().*cpu - lines.front().*cpu;
    std::vector<control::Progress> progress;
    for (const Line& line : lines) progress.push_back({line.*unit, line.*cpu});
    undisturbed_s += control::undisturbed_cpu_s(progress) * more;
    units += more;
  }
  double mean() const { return units > 0 ? cpu_s / units : 0; }
  double undisturbed_mean() const { return units > 0 ? undisturbed_s / units : 0; }
};

// From a feed worker's first finished samples on, so that importing the user's libraries is not counted.
Status add_feed_workers(const std::string& folder, telemetry::ReadBudget& budget, WorkCpu& work) {
  for (const std::string& path : find_files(folder, "feed-", budget)) {
    std::vector<FeedLine> lines;
    STOKER_TRY(telemetry::read_lines(path, budget, [&](const Json& line) {
      FeedLine next{line["samples"].as_double(), line["cpu_s"].as_double()};
      if (!lines.empty() || next.samples > 0) lines.push_back(next);
    }));
    if (!lines.empty()) work.add(lines, &FeedLine::cpu_s, &FeedLine::samples);
  }
  return ok();
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
  std::optional<int64_t> batches;
  double from = 0, to = 0, samples = 0, spare_samples = 0, inline_cpu_s = 0;
  for (const control::HostState& host : job.state.hosts) {
    const control::JobGroup* group = job.spec.find_group(host.group);
    if (!group) continue;
    const std::string folder = job_folder + "/telemetry/" + host.name;
    telemetry::ReadBudget budget;
    Span span;
    if (group->is_loader_feed()) {
      STOKER_TRY(add_feed_workers(folder, budget, feed));
    } else {
      STOKER_ASSIGN(span, main_loader(folder, budget, batches));
    }
    if (budget.spent)
      figures.notices.push_back("the telemetry of " + host.name + " of " + figures.job +
                                " is larger than what is read; figures are of its beginning");
    if (span.lines.empty()) continue;
    ++trainers;
    figures.steps += static_cast<int64_t>(span.change(&LoaderLine::steps));
    figures.window_s += span.change(&LoaderLine::step_s);
    figures.wait_s += span.change(&LoaderLine::wait_s);
    figures.samples_per_step += span.last().batch_size;
    figures.starved_s += span.change(&LoaderLine::starved_s);
    figures.received_bytes += span.change(&LoaderLine::received_bytes);
    figures.blocked_s += span.change(&LoaderLine::blocked_s);
    figures.loop_cpu_s += span.change(&LoaderLine::loop_cpu_s);
    figures.client_cpu_s += span.change(&LoaderLine::client_cpu_s);
    figures.hands = std::max(figures.hands, static_cast<int>(std::clamp(span.last().hands, 0.0, 1e6)));
    figures.sample_bytes = std::max(figures.sample_bytes, span.last().sample_bytes);
    inline_cpu_s += span.change(&LoaderLine::inline_cpu_s);
    samples += span.change(&LoaderLine::samples);
    spare_samples += span.change(&LoaderLine::spare_samples);
    training.add(span.lines, &LoaderLine::trainer_cpu_s, &LoaderLine::batches);
    local.add(span.lines, &LoaderLine::data_cpu_s, &LoaderLine::samples);
    from = from == 0 ? span.first().t : std::min(from, span.first().t);
    to = std::max(to, span.last().t);
  }
  if (trainers == 0 || figures.steps == 0) {
    std::string why = "job " + figures.job + " has no measured steps";
    if (job.state.phase == control::JobPhase::kQueued)
      why += ": it is queued";
    else if (batches)
      why += ": its loader has given " + std::to_string(*batches) + (*batches == 1 ? " batch" : " batches") +
             ", and it takes at least three";
    else
      why += is_over(job.state.phase) ? "" : " yet";
    if (job.state.phase != control::JobPhase::kQueued && !batches)
      why += ": its script must use stoker.DataLoader and take at least three batches";
    for (const std::string& notice : figures.notices) why += "; " + notice;
    return invalid(why);
  }
  // Of one training process: their steps are taken together.
  figures.steps /= trainers;
  figures.window_s /= trainers;
  figures.wait_s /= trainers;
  figures.starved_s /= trainers;
  figures.received_bytes /= trainers;
  figures.blocked_s /= trainers;
  figures.loop_cpu_s /= trainers;
  figures.client_cpu_s /= trainers;
  figures.trainer_cpu_s_per_step = training.mean();
  figures.undisturbed_trainer_cpu_s_per_step = training.undisturbed_mean();
  const bool fed = feed.units > 0;
  const WorkCpu& data = fed ? feed : local;
  figures.data_cpu_s_per_sample = data.mean();
  figures.undisturbed_data_cpu_s_per_sample = data.undisturbed_mean();
  figures.data_cpu_covers = fed ? "the feed workers and their children" : "the loader's worker processes";
  figures.fed = fed;
  figures.inline_data = !fed && inline_cpu_s > local.cpu_s / 2;
  if (samples > 0) figures.spare_share = std::clamp(spare_samples / samples, 0.0, 1.0);

  for (const control::JobGroup& group : job.spec.groups) {
    GroupFigures out;
    out.name = group.spec.name;
    out.instance_type = group.type.name;
    out.role = agent::role_name(group.spec.role);
    out.runs_own = group.entry != agent::Entry{};
    out.count = static_cast<double>(group.spec.count);
    out.vcpus = static_cast<double>(group.type.vcpus);
    out.accelerators = static_cast<int>(group.type.gpus);
    out.price_per_hour = group.type.price_per_hour.value_or(0);
    out.cores = group.type.cores(job.spec.cpu_scale);
    for (const control::HostState& host : job.state.hosts) {
      if (host.group != group.spec.name) continue;
      STOKER_ASSIGN(auto series, telemetry::read_series(job_folder + "/metrics/" + host.name + ".jsonl"));
      if (!host.extra) {
        out.cpu_s += cores_between(series, from, to) * figures.window_s;
        continue;
      }
      const auto from_ms = static_cast<int64_t>(from * 1000), to_ms = static_cast<int64_t>(to * 1000);
      const double there_s = control::billed_seconds(job.state, host, from_ms, to_ms);
      if (there_s <= 0) continue;
      const double share = there_s / (to - from),
                   begun = std::max(from, static_cast<double>(host.given_ms) / 1000);
      out.count += share;
      out.cpu_s += cores_between(series, begun, begun + there_s) * figures.window_s * share;
    }
    figures.groups.push_back(std::move(out));
  }
  return figures;
}

}  // namespace stoker::api
