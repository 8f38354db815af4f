// SPDX-License-Identifier: Apache-2.0
// The job table on disk: SQLite in WAL mode with synchronous FULL, so that what was acknowledged survives a
// power cut. A job and the event that changed it are written in one transaction; replaying the events of a
// job through apply() gives the state that is stored beside them (an event that changes nothing worth
// keeping, a step of preparation, is not written). One process writes (the server's lock sees to it).
// Confined to the loop's thread: a commit is a few milliseconds at most a few times per job, which nobody
// waits for but the job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/job_state.h"

namespace stoker::control {

struct StoredJob {
  int64_t number = 0;  // order of arrival
  JobSpec spec;
  JobState state;
};

class Store {
 public:
  // Creates or migrates the file. Refuses a database written by a newer stoker.
  static Result<std::unique_ptr<Store>> open(const std::string& path);
  ~Store();
  Store(const Store&) = delete;

  // kExists if there is a job of that name. Returns its number.
  Result<int64_t> add(const JobSpec& spec, const JobState& state);
  // `event` is what led to `state`, for the record.
  Status update(const std::string& job, const JobState& state, const Json& event, int64_t now_ms);

  // Forgets a job and its events; its name is free again.
  Status remove(const std::string& job);

  Result<std::vector<StoredJob>> jobs();  // all, in order of arrival
  Result<std::vector<Json>> events(const std::string& job);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

Error name_taken(const std::string& name);

Json event_json(const JobEvent& event);
Result<JobEvent> event_from_json(const Json& json);

}  // namespace stoker::control
