// SPDX-License-Identifier: Apache-2.0
#include "api/recent.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <map>

#include "telemetry/tail.h"

namespace stoker::api {
namespace {

constexpr size_t kTailBytes = 64 * 1024;  // some tens of lines
constexpr size_t kMostFiles = 64;         // of one instance
constexpr size_t kMostLoaders = 64;       // of one process

bool was_written_lately(const std::string& path, double now_s) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         now_s - static_cast<double>(info.st_mtim.tv_sec) < kStaleS + 2;
}

// Lines of one teller in order: what is kept of them is the last, and the latest that is a window older.
class Pair {
 public:
  void add(const Json& line) {
    const double t = line["t"].as_double();
    if (!lines_.empty() && t <= lines_.back()["t"].as_double()) lines_.clear();  // a clock that was set back
    lines_.push_back(line);
    while (lines_.size() > 2 && t - lines_[1]["t"].as_double() >= kWindowS) lines_.pop_front();
  }
  std::optional<Span> span(double now_s) const {
    if (lines_.empty() || std::abs(now_s - lines_.back()["t"].as_double()) > kStaleS) return {};
    return Span(lines_.front(), lines_.back());
  }

 private:
  std::deque<Json> lines_;
};

std::vector<Teller> tellers(const std::string& folder, const std::string& prefix, double now_s) {
  std::vector<Teller> found;
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".jsonl")) continue;
    if (was_written_lately(entry.path().string(), now_s)) names.push_back(std::move(name));
    if (names.size() == kMostFiles) break;
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::map<int64_t, Pair> pairs;  // by loader
    Status read = telemetry::read_tail(folder + "/" + name, kTailBytes, [&](const Json& line) {
      const int64_t number = line["loader"].as_int();
      if (pairs.size() < kMostLoaders || pairs.count(number)) pairs[number].add(line);
    });
    if (!read.ok()) continue;  // it has just been removed, or is not for us to read: like none
    const std::string process = name.substr(prefix.size(), name.size() - prefix.size() - 6);
    if (process.empty() || process.find_first_not_of("0123456789") != std::string::npos) continue;
    for (auto& [number, pair] : pairs)
      if (auto span = pair.span(now_s))
        found.push_back({process, prefix == "loader-" ? std::to_string(number) : "", std::move(*span)});
  }
  return found;
}

std::optional<Span> usage_of(const std::string& path, double now_s) {
  Pair pair;
  if (!telemetry::read_tail(path, kTailBytes, [&](const Json& line) { pair.add(line); }).ok()) return {};
  return pair.span(now_s);
}

}  // namespace

double Span::change(std::string_view key) const {
  const double change = now_[key].as_double() - before_[key].as_double();
  return change > 0 ? change : 0;
}

double Span::seconds() const { return t() - before_["t"].as_double(); }

std::optional<double> Span::rate(std::string_view key) const {
  if (seconds() <= 0) return {};
  return change(key) / seconds();
}

Span Span::of(std::string_view key) const {
  Json before = before_[key].is_object() ? before_[key] : Json(Json::Object{});
  Json now = now_[key].is_object() ? now_[key] : Json(Json::Object{});
  before.set("t", before_["t"]);
  now.set("t", now_["t"]);
  return {std::move(before), std::move(now)};
}

RecentJob read_recent(const control::StoredJob& job, const std::string& folder, bool emulated, double now_s) {
  RecentJob recent{job, emulated, {}};
  for (const control::HostState& host : job.state.hosts) {
    if (host.phase == control::HostPhase::kReleased) continue;
    RecentInstance one{host, {}, {}, {}};
    const std::string telemetry = folder + "/telemetry/" + host.name;
    one.usage = usage_of(folder + "/metrics/" + host.name + ".jsonl", now_s);
    one.loaders = tellers(telemetry, "loader-", now_s);
    one.workers = tellers(telemetry, "feed-", now_s);
    recent.instances.push_back(std::move(one));
  }
  return recent;
}

Json sizing_of(const RecentJob& job, const control::GroupSpec& group) {
  Json found;
  double told = 0;
  for (const RecentInstance& instance : job.instances)
    for (const Teller& loader : instance.loaders)
      for (const Json& one : loader.span.now()["sizing"].as_array())
        if (one["group"].as_string() == group.name && loader.span.t() >= told) {
          found = one;
          told = loader.span.t();
        }
  if (group.elastic() && found["wanted"].is_int())
    found.set("wanted", std::clamp(found["wanted"].as_int(), group.count, group.most));
  return found;
}

}  // namespace stoker::api
