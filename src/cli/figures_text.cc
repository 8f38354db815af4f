// SPDX-License-Identifier: Apache-2.0
#include "cli/figures_text.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "cli/table.h"

namespace stoker::cli {
namespace {

// How many candidates people want to read; --json has them all.
constexpr size_t kShownCandidates = 6;

std::string group_cell(const Json& group) {
  std::string out = formatted("%s=%.3gx", group["name"].as_string().c_str(), group["count"].as_double());
  out += group["instance_type"].as_string();
  if (!group["role"].as_string().empty()) out += ":" + group["role"].as_string();
  return out;
}

std::string notes(const Json& of) {
  std::string out;
  for (const Json& notice : of["notices"].as_array()) out += "Note: " + notice.as_string() + ".\n";
  return out;
}

// What the bounds count; of which jobs, where that is not the same for all.
std::string covers_text(const Json::Array& jobs) {
  std::vector<std::pair<std::string, std::string>> kinds;  // what -> names
  for (const Json& job : jobs) {
    const std::string& covers = job["bound_covers"].as_string();
    auto kind =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& one) { return one.first == covers; });
    if (kind == kinds.end())
      kinds.emplace_back(covers, job["job"].as_string());
    else
      kind->second += ", " + job["job"].as_string();
  }
  if (kinds.size() == 1) return kinds.front().first;
  std::string out;
  for (const auto& [covers, names] : kinds)
    out += (out.empty() ? "of " : ", and of ") + names + ": " + covers;
  return out;
}

// "-" for one that is not known, such as a price.
std::string cell(const char* format, const Json& figure, double factor = 1) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  return figure.is_null() ? "-" : formatted(format, figure.as_double() * factor);
#pragma GCC diagnostic pop
}

}  // namespace

std::string comparison_text(const Json& comparison) {
  const Json::Array& jobs = comparison["jobs"].as_array();
  // Jobs are columns, since there are few of them and many figures.
  auto line = [&](const std::string& name, auto cell) {
    std::vector<std::string> row = {name};
    for (const Json& job : jobs) row.push_back(cell(job));
    return row;
  };
  auto number = [&](const char* name, const char* format, const char* key, double factor = 1) {
    return line(name, [&](const Json& job) { return cell(format, job[key], factor); });
  };
  size_t most_groups = 0;
  for (const Json& job : jobs) most_groups = std::max(most_groups, job["groups"].as_array().size());
  std::vector<std::vector<std::string>> rows;
  rows.push_back(line("job", [](const Json& job) { return job["job"].as_string(); }));
  for (size_t i = 0; i < most_groups; ++i)
    rows.push_back(line(i == 0 ? "instances" : "", [&](const Json& job) {
      const Json::Array& groups = job["groups"].as_array();
      return i < groups.size() ? group_cell(groups[i]) : std::string();
    }));
  rows.push_back(number("price, $/h", "%.3f", "price_per_hour"));
  rows.push_back(number("mean step, ms", "%.1f", "step_ms"));
  rows.push_back(number("cost per 100 steps, $", "%.4f", "cost_per_100_steps"));
  rows.push_back(number("speed-up", "%.2fx", "speedup"));
  rows.push_back(number("price-performance", "%+.0f %%", "price_performance", 100));
  for (size_t i = 0; i < most_groups; ++i) {
    rows.push_back(line(i == 0 ? "CPU, % of all vCPUs" : "", [&](const Json& job) {
      const Json::Array& groups = job["groups"].as_array();
      if (i >= groups.size()) return std::string();
      return formatted("%s %.0f/%.0f", groups[i]["name"].as_string().c_str(),
                       groups[i]["cpu_percent"].as_double(), groups[i]["cpu_percent_max"].as_double());
    }));
  }
  rows.push_back(line("accelerator, %", [](const Json& job) {
    std::string out;
    for (const Json& group : job["groups"].as_array()) {
      if (group["accelerators"].as_int() == 0) continue;
      const Json& percent = group["accelerator_percent"];
      std::string cell = !percent.is_null() ? formatted("%.0f", percent.as_double())
                         : job["accelerator"].as_string() == "emulated" ? "emulated"
                                                                        : "not measured";
      out += (out.empty() ? "" : " ") + cell;
    }
    return out.empty() ? "none" : out;
  }));
  rows.push_back(number("waiting for data", "%.0f %%", "wait_share", 100));
  rows.push_back(line("bound by CPU, ms", [](const Json& job) {
    if (job["bound_ms"].is_null()) return std::string("-");
    return formatted("%.1f (%s)", job["bound_ms"].as_double(), job["bound_group"].as_string().c_str());
  }));
  rows.push_back(number("share of that bound", "%.0f %%", "share_of_bound", 100));
  std::string out = table_text(rows, Align::kRight);
  if (!jobs.empty())
    out += "Bound: what the CPU quotas allow at the CPU time per step of the same run; counted: " +
           covers_text(jobs) + ".\n";
  for (const Json& job : jobs) out += notes(job);
  return out;
}

std::string advice_text(const Json& advice) {
  std::string out = advice["summary"].as_string() + "\n" + notes(advice);
  const Json::Array& candidates = advice["candidates"].as_array();
  if (candidates.empty()) return out;
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"candidate", "step, ms", "$/h", "$ per 100 steps", "speed-up", "price-performance", "then binds"});
  for (size_t i = 0; i < candidates.size() && i < kShownCandidates; ++i) {
    const Json& c = candidates[i];
    const bool sibling = c["kind"].as_string() == "sibling";
    std::string name = formatted("%s %lld ",
                                 sibling              ? "instead:"
                                 : advice.has("feed") ? "helpers:"
                                                      : "add:",
                                 static_cast<long long>(c["count"].as_int())) +
                       c["instance_type"].as_string();
    rows.push_back({name, formatted("%.1f", c["step_ms"].as_double()), cell("%.3f", c["price_per_hour"]),
                    cell("%.4f", c["cost_per_100_steps"]), formatted("%.2fx", c["speedup"].as_double()),
                    cell("%+.0f %%", c["price_performance"], 100), c["binds"].as_string()});
  }
  out += "\n" + table_text(rows, Align::kRight);
  if (candidates.size() > kShownCandidates)
    out += formatted("%zu more with --json.\n", candidates.size() - kShownCandidates);
  return out;
}

}  // namespace stoker::cli
