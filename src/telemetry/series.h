// SPDX-License-Identifier: Apache-2.0
// What an instance used over time, as JSON lines (docs/formats/telemetry.md): `metrics/algo-N.jsonl` of a
// job's folder. Counters are cumulative, so that a lost line loses resolution and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/result.h"

namespace stoker::telemetry {

struct UsageSample {
  double t = 0;            // wall clock, seconds
  double cpu_s = 0;        // cumulative, all processes under the quota
  double throttled_s = 0;  // cumulative time that they were held back by it
  int64_t memory_bytes = 0;

  Json to_json() const;
  bool operator==(const UsageSample&) const = default;
};

// Appends whole lines, each by one write, so that killing the writer can cut only the last. Confined.
class LineWriter {
 public:
  // Ends a line that an earlier writer was killed in.
  static Result<LineWriter> open(const std::string& path);
  Status append(const Json& line);

 private:
  explicit LineWriter(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// How much of files that a job's script may write is read: what it leaves there may be huge.
struct ReadBudget {
  int64_t bytes = int64_t{256} << 20;
  int64_t lines = 1'000'000;
  bool spent = false;  // something was left unread
};
constexpr size_t kLongestLine = 64 * 1024;

// Hands over the whole lines of a plain file that are JSON objects, in order; other lines, and those that are
// longer than kLongestLine, are left out. A missing file, or one that is no plain file, has none.
Status read_lines(const std::string& path, ReadBudget& budget, const std::function<void(const Json&)>& take);

// Of a long run every second sample, every fourth…, and the last: at most kMostSamples.
constexpr size_t kMostSamples = 1 << 17;
Result<std::vector<UsageSample>> read_series(const std::string& path, size_t most = kMostSamples);
// Cores used on average between the first and the last sample; 0 with fewer than two.
double mean_cores(const std::vector<UsageSample>& series);

}  // namespace stoker::telemetry
