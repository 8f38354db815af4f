// SPDX-License-Identifier: Apache-2.0
#include "cli/top_text.h"

#include <algorithm>

#include "base/text.h"
#include "cli/table.h"
#include "cli/text.h"

namespace stoker::cli {
namespace {

constexpr const char* kUnknown = "-";

// A table's cell or line has one, whatever a job supplied.
std::string one_line(const std::string& supplied) {
  std::string shown = shown_text(supplied);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return shown;
}

// At most about four digits, as people read them.
std::string rate_text(const Json& rate) {
  if (!rate.is_number()) return kUnknown;
  const double value = rate.as_double();
  if (value >= 100) return formatted("%.0f", value);
  return formatted(value >= 10 ? "%.1f" : "%.2f", value);
}

std::string bytes_text(const Json& bytes) {
  return bytes.is_number() ? size_text(static_cast<int64_t>(bytes.as_double())) : kUnknown;
}

std::string used_text(const std::string& used, const std::string& most) { return used + "/" + most; }

std::vector<std::string> row(const std::string& name, const Json& of) {
  const Json& cpu = of["cpu_percent"];
  const int64_t accelerators = of["accelerators"].as_int();
  // Bytes that go from feed workers to loaders: of either, what it knows.
  const Json& wire =
      of["received_bytes_per_s"].is_number() ? of["received_bytes_per_s"] : of["sent_bytes_per_s"];
  return {name,
          used_text(cpu.is_number() ? formatted("%.0f", cpu.as_double()) : kUnknown,
                    formatted("%.0f %%", of["cpu_percent_max"].as_double())),
          used_text(bytes_text(of["memory_bytes"]), bytes_text(of["memory_limit_bytes"])),
          accelerators > 0 ? std::to_string(accelerators) + " " + one_line(of["accelerator"].as_string())
                           : std::string(kUnknown),
          rate_text(of["steps_per_s"]),
          rate_text(of["samples_per_s"]),
          of["waiting"].is_number() ? formatted("%.0f %%", 100 * of["waiting"].as_double()) : kUnknown,
          wire.is_number() ? bytes_text(wire) + "/s" : kUnknown,
          bytes_text(of["queue_bytes"])};
}

void add_part(std::string& line, const std::string& part) { line += (line.empty() ? "" : " · ") + part; }

// What a group has to say beside its figures; "" where there is nothing.
std::string notes(const Json& group) {
  std::string line;
  if (group["wanted"].is_int()) {
    add_part(line, std::to_string(group["running"].as_int()) + " running, " +
                       std::to_string(group["wanted"].as_int()) + " wanted");
    if (!group["why"].as_string().empty()) line += ": " + one_line(group["why"].as_string());
  }
  if (group["link_binds"].as_bool())
    add_part(line, formatted("the link is too slow: waited for %.0f %% of the time",
                             100 * group["link_busy"].as_double()));
  if (group["spare_samples_per_s"].as_double() > 0)
    add_part(line, "spare cores make " + rate_text(group["spare_samples_per_s"]) + " samples/s of these");
  if (group["hedged"].as_int() > 0) add_part(line, std::to_string(group["hedged"].as_int()) + " asked twice");
  for (const auto& [kind, count] : group["errors"].as_object()) {
    std::string word = one_line(kind);
    std::replace(word.begin(), word.end(), '_', ' ');
    add_part(line, std::to_string(count.as_int()) + " " + word);
  }
  return line;
}

void add_job(const Json& job, std::vector<std::string>& lines) {
  lines.push_back(one_line(job["job"].as_string()) + " · " + one_line(job["phase"].as_string()) + " " +
                  duration_text(job["since_s"].as_double()));
  const Json::Array& groups = job["groups"].as_array();
  const bool none = std::all_of(groups.begin(), groups.end(), [](const Json& group) {
    return group["instances"].is_int() && group["instances"].as_int() == 0;
  });
  if (none) return;  // it is over
  // Notes stand below their group, so that they must not widen its columns.
  std::vector<std::vector<std::string>> rows = {
      {"GROUP", "CPU", "MEMORY", "ACCELERATOR", "STEPS/S", "SAMPLES/S", "WAITING", "FEED", "QUEUE"}};
  std::vector<std::pair<size_t, std::string>> below;
  for (const Json& group : groups) {
    std::string name = one_line(group["group"].as_string());
    if (!group["role"].as_string().empty()) name += ":" + one_line(group["role"].as_string());
    rows.push_back(row(name, group));
    if (std::string said = notes(group); !said.empty()) below.emplace_back(rows.size() - 1, "    " + said);
    const Json::Array& hosts = group["hosts"].as_array();
    for (const Json& host : hosts) {
      std::string label = "  " + one_line(host["host"].as_string());
      if (host["phase"].as_string() != "running") label += " (" + one_line(host["phase"].as_string()) + ")";
      if (hosts.size() > 1) rows.push_back(row(label, host));
      const Json::Array& workers = host["workers"].as_array();
      if (workers.size() > 1)  // else the instance's figures are the worker's
        for (const Json& worker : workers) {
          std::vector<std::string> cells =
              row("    worker " + one_line(worker["process"].as_string()), worker);
          cells[1] = worker["cpu_percent"].is_number()
                         ? formatted("%.0f %%", worker["cpu_percent"].as_double())
                         : kUnknown;
          cells[2] = kUnknown;
          rows.push_back(std::move(cells));
        }
    }
  }
  const std::string table = table_text(rows, Align::kRight);
  size_t at = 0;
  auto note = below.begin();
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t end = table.find('\n', at);
    lines.push_back("  " + table.substr(at, end - at));
    at = end + 1;
    for (; note != below.end() && note->first == i; ++note) lines.push_back("  " + note->second);
  }
}

size_t characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(std::max<size_t>(character_size(text), 1));
  return count;
}

std::string cut_to(const std::string& line, size_t columns) {
  if (line.size() <= columns || characters(line) <= columns) return line;
  std::string_view rest = line;
  for (size_t i = 0; i + 1 < columns && !rest.empty(); ++i)
    rest.remove_prefix(std::max<size_t>(character_size(rest), 1));
  return line.substr(0, line.size() - rest.size()) + "…";
}

}  // namespace

std::vector<std::string> top_lines(const Json& live) {
  std::vector<std::string> lines;
  for (const Json& job : live["jobs"].as_array()) {
    if (!lines.empty()) lines.emplace_back();
    add_job(job, lines);
  }
  return lines;
}

std::vector<std::string> fitted(std::vector<std::string> lines, size_t columns, size_t rows) {
  if (lines.size() > rows && rows > 0) {
    const size_t missing = lines.size() - (rows - 1);
    lines.resize(rows - 1);
    lines.push_back("… " + std::to_string(missing) + " more lines");
  }
  for (std::string& line : lines) line = cut_to(line, columns);
  return lines;
}

}  // namespace stoker::cli
