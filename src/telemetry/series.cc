// SPDX-License-Identifier: Apache-2.0
#include "telemetry/series.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

#include "telemetry/tail.h"

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

Status read_lines(const std::string& path, ReadBudget& budget, const std::function<void(const Json&)>& take) {
  STOKER_ASSIGN(UniqueFd file, open_plain(path));
  if (!file) return ok();
  std::string piece(4 * kLongestLine, '\0'), line;
  bool too_long = false;
  while (true) {
    ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("reading " + path, errno);
    if (n == 0) return ok();
    budget.spent = budget.spent || (budget.bytes -= n) < 0 || budget.lines <= 0;
    if (budget.spent) return ok();
    std::string_view rest(piece.data(), static_cast<size_t>(n));
    for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
      too_long = too_long || line.size() + end > kLongestLine;
      if (!too_long) {
        line.append(rest.substr(0, end));
        if (auto parsed = Json::parse(line); parsed.ok() && parsed->is_object()) {
          if (--budget.lines < 0) {
            budget.spent = true;
            return ok();
          }
          take(*parsed);
        }
      }
      line.clear();
      too_long = false;
    }
    too_long = too_long || line.size() + rest.size() > kLongestLine;
    if (!too_long) line.append(rest);
  }
}

Result<std::vector<UsageSample>> read_series(const std::string& path, size_t most) {
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  ReadBudget budget{kAll, kAll};  // the agent's file: long when the job was long
  std::vector<UsageSample> series;
  UsageSample last;
  size_t count = 0, stride = 1;
  STOKER_TRY(read_lines(path, budget, [&](const Json& line) {
    last = {line["t"].as_double(), line["cpu_s"].as_double(), line["throttled_s"].as_double(),
            line["memory_bytes"].as_int()};
    if (count++ % stride != 0) return;
    series.push_back(last);
    if (series.size() < most) return;
    for (size_t i = 0; 2 * i < series.size(); ++i) series[i] = series[2 * i];
    series.resize((series.size() + 1) / 2);
    stride *= 2;
  }));
  if (count > 0 && series.back() != last) series.push_back(last);
  return series;
}

double mean_cores(const std::vector<UsageSample>& series) {
  if (series.size() < 2 || series.back().t <= series.front().t) return 0;
  return (series.back().cpu_s - series.front().cpu_s) / (series.back().t - series.front().t);
}

}  // namespace stoker::telemetry
