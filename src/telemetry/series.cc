// SPDX-License-Identifier: Apache-2.0
#include "telemetry/series.h"

#include <fcntl.h>
#include <unistd.h>

namespace stoker::telemetry {

Json UsageSample::to_json() const {
  Json json;
  json.set("t", t).set("cpu_s", cpu_s).set("throttled_s", throttled_s).set("memory_bytes", memory_bytes);
  json.set("gpu", nullptr);
  return json;
}

Result<LineWriter> LineWriter::open(const std::string& path) {
  STOKER_ASSIGN(UniqueFd fd, open_file(path, O_RDWR | O_CREAT | O_APPEND));
  char last = '\n';
  off_t end = lseek(fd.get(), 0, SEEK_END);
  if (end > 0 && pread(fd.get(), &last, 1, end - 1) != 1) return errno_error("read " + path, errno);
  if (last != '\n') STOKER_TRY(write_all(fd.get(), as_bytes("\n")));
  return LineWriter(std::move(fd));
}

Status LineWriter::append(const Json& line) { return write_all(fd_.get(), as_bytes(line.dump() + "\n")); }

Result<std::vector<Json>> read_lines(const std::string& path) {
  std::vector<Json> lines;
  auto text = read_text(path);
  if (!text.ok()) {
    if (text.error().code == Code::kNotFound) return lines;
    return std::move(text).error();
  }
  for (size_t at = 0, end; (end = text->find('\n', at)) != std::string::npos; at = end + 1) {
    auto line = Json::parse(std::string_view(*text).substr(at, end - at));
    if (line.ok() && line->is_object()) lines.push_back(std::move(*line));
  }
  return lines;
}

Result<std::vector<UsageSample>> read_series(const std::string& path) {
  STOKER_ASSIGN(auto lines, read_lines(path));
  std::vector<UsageSample> series;
  for (const auto& line : lines)
    series.push_back({line["t"].as_double(), line["cpu_s"].as_double(), line["throttled_s"].as_double(),
                      line["memory_bytes"].as_int()});
  return series;
}

double mean_cores(const std::vector<UsageSample>& series) {
  if (series.size() < 2 || series.back().t <= series.front().t) return 0;
  return (series.back().cpu_s - series.front().cpu_s) / (series.back().t - series.front().t);
}

}  // namespace stoker::telemetry
