// SPDX-License-Identifier: Apache-2.0
// The size of a feed group of MIN..MAX instances: what its dispatcher wants, what became of it, and what is
// to be done next. Part of a job's state; pure. docs/decisions/elastic-feed.md is the whole story.
#pragma once

#include <cstdint>
#include <string>

#include "agent/protocol.h"
#include "base/json.h"

namespace stoker::control {

struct FeedSize {
  agent::WantedSize asked;  // by the dispatcher, last; wanted 0: it has not said yet
  int64_t asked_ms = 0;
  bool told_not_free = false;  // since the group last grew
  int64_t failures = 0;        // instances that were added and ended by themselves
  int64_t again_ms = 0;        // after one: it grows no sooner
  bool operator==(const FeedSize&) const = default;

  Json to_json() const;
  static FeedSize from_json(const Json& json);
};

// A change that was made, for the record.
struct Resize {
  int64_t at_ms = 0;
  std::string group;
  int64_t from = 0, to = 0;  // instances
  std::string reason;
  bool operator==(const Resize&) const = default;

  Json to_json() const;
  static Resize from_json(const Json& json);
};

constexpr size_t kMostResizes = 100;      // kept in the record; the latest
constexpr int64_t kMostFailures = 3;      // then the group grows no more
constexpr int64_t kAgainMs = 30'000;      // times the failures so far: what fails may pass
constexpr size_t kMostHostsOfAJob = 240;  // in its whole life: each has a name of its own

}  // namespace stoker::control
