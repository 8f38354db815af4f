// SPDX-License-Identifier: Apache-2.0
#include "cli/text.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "cli/session.h"
#include "cli/table.h"

namespace stoker::cli {

namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// A table's last cell: the first line, cut where it is long (not within a character), and that is shown.
std::string one_line(const std::string& text) {
  constexpr size_t kLongest = 90;
  std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  return std::string(cut_text(line, kLongest)) + (line.size() > kLongest ? "…" : "");
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 10) return format("%.1f s", seconds);
  if (seconds < 120) return format("%.0f s", seconds);
  if (seconds < 7200) return format("%.0f min", seconds / 60);
  if (seconds < 172800) return format("%.1f h", seconds / 3600);
  return format("%.0f d", seconds / 86400);
}

std::string size_text(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (value < 1e3) return format("%.0f B", value);
  if (value < 1e6) return format("%.0f kB", value / 1e3);
  return value < 1e9 ? format("%.0f MB", value / 1e6) : format("%.1f GB", value / 1e9);
}

std::string money_text(const Json& dollars) {
  if (!dollars.is_number()) return "-";
  double value = dollars.as_double();
  return "$" + format(value < 0.1 ? "%.4f" : "%.2f", value);
}

static std::string resize_text(const Json& job) {
  const Json::Array& all = job["state"]["resizes"].as_array();
  if (all.empty()) return {};
  const Json& last = all.back();
  return last["group"].as_string() + " " + std::to_string(last["from"].as_int()) + " to " +
         std::to_string(last["to"].as_int()) + " instances: " + last["reason"].as_string();
}

// Of a job that goes on: the last change of a group's size, and what it had to get over last.
static std::string going_text(const Json& job) {
  if (is_over(job)) return {};
  const Json::Array& notices = job["state"]["notices"].as_array();
  std::string text = resize_text(job);
  if (!notices.empty()) text += (text.empty() ? "" : "; ") + notices.back().as_string();
  return text;
}

std::string groups_text(const Json& job) {
  std::string text;
  for (const Json& group : job["spec"]["groups"].as_array()) {
    if (!text.empty()) text += " ";
    const int64_t most = group["most"].as_int();
    text += group["name"].as_string() + "=" + std::to_string(group["count"].as_int()) +
            (most > 0 ? ".." + std::to_string(most) : "") + "x" + group["type"]["name"].as_string();
    if (!group["role"].as_string().empty()) text += ":" + group["role"].as_string();
    if (most > 0 && job["state"]["placed_ms"].as_int() > 0 && job["state"]["over_ms"].as_int() == 0)
      text += "(" + std::to_string(job["state"]["instances"][group["name"].as_string()].as_int()) + ")";
  }
  return text;
}

std::string jobs_table(const Json& jobs, int64_t now_ms, bool for_terminal) {
  std::vector<std::vector<std::string>> rows = {{"JOB", "STATE", "GROUPS", "AGE", "BILLED", "COST", "NOTE"}};
  for (const Json& job : jobs["jobs"].as_array()) {
    const Json& state = job["state"];
    std::string note = job["waiting_for"].as_string();
    if (!state["failure_reason"].as_string().empty())
      note = state["failure_reason"].as_string();
    else if (!state["stop_reason"].as_string().empty())
      note = state["stop_reason"].as_string();
    else if (note.empty())
      note = going_text(job);
    note = for_terminal ? one_line(note) : note.substr(0, note.find('\n'));
    double age = static_cast<double>(now_ms - state["created_ms"].as_int()) / 1000;
    rows.push_back({job["name"].as_string(), job["phase"].as_string(), groups_text(job), duration_text(age),
                    duration_text(job["billed_seconds"].as_double()), money_text(job["cost"]), note});
  }
  return table_text(rows, Align::kLeft);
}

// Of instance types only: `here` is a machine that is there.
static bool is_scaled(const Json& job) {
  const Json::Array& groups = job["spec"]["groups"].as_array();
  return job["spec"]["cpu_scale"].as_double(1) != 1 &&
         !std::all_of(groups.begin(), groups.end(),
                      [](const Json& group) { return group["type"]["here"].as_bool(); });
}

std::string submitted_text(const Json& submitted) {
  const Json& job = submitted["job"];
  const Json& code = submitted["code"];
  std::string text = "stoker: job " + job["name"].as_string() + " · " + groups_text(job);
  const double scale = job["spec"]["cpu_scale"].as_double(1);
  if (is_scaled(job)) text += " · cpu scale " + format("%.4g", scale);
  if (job["price_per_hour"].is_number()) text += " · " + money_text(job["price_per_hour"]) + "/h";
  if (job["emulated"].as_bool()) text += " · accelerator: emulated";
  text += "\n";
  if (scale != 1 && !is_scaled(job))
    text += "stoker: cpu scale " + format("%.4g", scale) +
            " changes nothing: `here` is this machine as it is and not scaled\n";
  const auto& left_out = code["left_out"].as_array();
  const int64_t files = code["files"].as_int();
  text += "stoker: code: " + std::to_string(files) + (files == 1 ? " file, " : " files, ") +
          size_text(code["bytes"].as_int());
  if (!left_out.empty()) text += "; left out: ";
  for (size_t i = 0; i < left_out.size() && i < 8; ++i) text += (i ? ", " : "") + left_out[i].as_string();
  if (left_out.size() > 8) text += ", … (" + std::to_string(left_out.size()) + ")";
  return text + "\n";
}

std::string queued_text(const Json& job) {
  const std::string& why = job["waiting_for"].as_string();
  return why.empty() || why == "starts next" ? std::string() : "queued: " + why;
}

std::string slow_steps_text(const Json& job) {
  constexpr int64_t kNoticeableMs = 500;
  if (system_clock().wall_ms() - job["state"]["placed_ms"].as_int() < kNoticeableMs) return {};
  std::string text;
  for (const Json& host : job["state"]["hosts"].as_array()) {
    if (host["phase"].as_string() != "preparing" || host["step"].as_string().empty()) continue;
    text += (text.empty() ? "preparing: " : ", ") + host["group"].as_string() + "/" +
            host["name"].as_string() + " " + host["step"].as_string();
  }
  return text;
}

std::string result_text(const Json& job) {
  const Json& state = job["state"];
  std::string text = job["name"].as_string() + " " + job["phase"].as_string();
  text += " after " + duration_text(job["billed_seconds"].as_double());
  if (job["cost"].is_number()) text += " · " + money_text(job["cost"]);
  if (!state["failure_reason"].as_string().empty())
    text += "\nstoker: " + state["failure_reason"].as_string();
  else if (job["phase"].as_string() == "stopped")
    text += " (" + state["stop_reason"].as_string() + ")";
  return text;
}

}  // namespace stoker::cli
