// SPDX-License-Identifier: Apache-2.0
// What an instance used over time, as JSON lines (docs/formats/telemetry.md): `metrics/algo-N.jsonl` of a
// job's folder. Counters are cumulative, so that a lost line loses resolution and nothing else.
#pragma once

#include <cstdint>
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

// The whole lines of a file, in order; a line that is no JSON object is left out. A missing file is an empty
// list.
Result<std::vector<Json>> read_lines(const std::string& path);
Result<std::vector<UsageSample>> read_series(const std::string& path);
// Cores used on average between the first and the last sample; 0 with fewer than two.
double mean_cores(const std::vector<UsageSample>& series);

}  // namespace stoker::telemetry
