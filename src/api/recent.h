// SPDX-License-Identifier: Apache-2.0
// What the instances of a job that is not over have measured last (docs/formats/telemetry.md): counters as
// they stand now, and as they stood some seconds before, so that rates are of now and not of the whole run.
// What is read is in the script's hands: it is bounded, and what makes no sense is left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "control/store.h"

namespace stoker::api {

constexpr double kWindowS = 5;  // rates are of about so long
constexpr double kStaleS = 10;  // what has told nothing for longer is not there any more

// The last line of one teller and an earlier one; the same twice where there is but one. Pure.
class Span {
 public:
  explicit Span(Json first) : before_(first), now_(std::move(first)) {}
  Span(Json before, Json now) : before_(std::move(before)), now_(std::move(now)) {}

  const Json& now() const { return now_; }
  double t() const { return now_["t"].as_double(); }
  double count(std::string_view key) const { return now_[key].as_double(); }  // from the teller's start
  double before(std::string_view key) const { return before_[key].as_double(); }
  double change(std::string_view key) const;               // never below 0
  double seconds() const;                                  // between the two
  std::optional<double> rate(std::string_view key) const;  // a second
  // Of an object within the line.
  Span of(std::string_view key) const;

 private:
  Json before_, now_;
};

struct Teller {
  std::string process;  // its number, within the instance
  std::string loader;   // which of its loaders; "" where it is none
  Span span;
};

struct RecentInstance {
  control::HostState host;
  std::optional<Span> usage;
  std::vector<Teller> loaders;
  std::vector<Teller> workers;  // of a feed group
};

struct RecentJob {
  control::StoredJob job;
  bool emulated = false;  // runs with fewer accelerators than its types have
  std::vector<RecentInstance> instances;
};

// The instances that have been given and not yet released. `now_s`: wall clock.
RecentJob read_recent(const control::StoredJob& job, const std::string& folder, bool emulated, double now_s);

// How many workers its dispatcher wants of this feed group: VIEW's member of docs/formats/wire.md, as a
// loader has told last, of a group of MIN..MAX no fewer and no more; null where nobody has.
Json sizing_of(const RecentJob& job, const control::GroupSpec& group);

}  // namespace stoker::api
