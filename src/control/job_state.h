// SPDX-License-Identifier: Apache-2.0
// The life of a job as a pure state machine: events and times come in, the next state and the stops to send
// come out. It touches nothing, so replaying the events gives the same state.
//
//   queued -> preparing -> running -> stopping -> completed | failed | stopped
//
// Rules: the outcome is decided once, by the first of: a stop that was asked for; the platform failing an
// instance; a training instance (of a group without a role) ending with an error; a helper group of which no
// instance is left before the training has ended; all training instances ended well. From then on every
// training instance that still runs is stopped. A helper group is stopped as soon as all groups it serves
// have ended, however they ended, and not before. The job is over when every instance has been released:
// nothing of it is left on any machine.
//
// A feed group of MIN..MAX instances gets further ones while the job runs, each a host of its own, and gives
// them back; that one of these cannot be had, fails or ends is never the job's end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/protocol.h"
#include "control/feed_size.h"
#include "control/job_spec.h"

namespace stoker::control {

enum class JobPhase { kQueued, kPreparing, kRunning, kStopping, kCompleted, kFailed, kStopped };
const char* phase_name(JobPhase phase);  // queued, …
bool is_over(JobPhase phase);

enum class HostPhase { kQueued, kPreparing, kRunning, kEnded, kReleased };

struct HostState {
  std::string name;  // algo-N
  std::string group;
  int64_t rank = 0;  // in its group
  HostPhase phase = HostPhase::kQueued;
  std::string step;  // what it is preparing; for who looks now, and not stored
  bool stop_sent = false;
  bool killed = false;           // it outlived the grace
  std::optional<int> exit_code;  // of the user's process; a signal is 128 + its number
  std::string reason;            // for people, where the exit was not a plain 0
  std::string failure;           // text of /opt/ml/output/failure
  std::string platform_error;    // ours, not the user's
  int64_t last_event = 0;        // number of the last agent event applied
  int64_t started_ms = 0, ended_ms = 0, released_ms = 0;
  bool extra = false;    // beyond the MIN of its group
  int64_t given_ms = 0;  // of an extra one: billed from then until it was released
};

struct JobState {
  JobPhase phase = JobPhase::kQueued;
  std::optional<JobPhase> outcome;  // completed, failed or stopped once decided
  std::string failure_reason;       // AlgorithmError: … | ClientError: … | InternalServerError: …
  std::string stop_reason;
  int exit_code = 0;             // what `stoker run` ends with
  std::vector<HostState> hosts;  // algo-1, algo-2, … in order of number
  std::vector<std::string> notices;
  std::map<std::string, FeedSize> sizes;  // of groups of MIN..MAX instances
  std::vector<Resize> resizes;            // the latest
  int64_t created_ms = 0;
  int64_t placed_ms = 0;  // machines were given: billing begins
  int64_t running_ms = 0;
  int64_t outcome_ms = 0;
  int64_t over_ms = 0;  // billing ends

  HostState* find_host(const std::string& name);
  int64_t instances(const std::string& group) const;  // that have neither ended nor been told to
  Json to_json() const;                               // what is stored
  Json shown() const;                                 // and what its hosts are preparing, how many there are
  static Result<JobState> from_json(const Json& json);
};

// ---- events ----
struct StopAsked {
  std::string reason;
};
struct Placed {};  // the scheduler gave it machines
struct FromAgent {
  std::string host;
  agent::AgentEvent event;
};
struct AgentLost {  // its process ended, or could not be started, without `released`
  std::string host;
  std::string message;
};
struct AgentSilent {  // it has not been heard of for long, or is back
  std::string host;
  bool back = false;
};
struct Resized {  // the scheduler has machines for it, or takes some back
  std::string group;
  int64_t to = 0;   // instances
  std::string why;  // "": what its dispatcher said
  bool operator==(const Resized&) const = default;
};
struct NotFree {  // it wants more than there is: told once
  std::string group;
  std::string why;
};
using JobEvent = std::variant<StopAsked, Placed, FromAgent, AgentLost, AgentSilent, Resized, NotFree>;

struct StopHost {
  std::string host;
  double grace_s;
  std::string reason;
  bool operator==(const StopHost&) const = default;
};

struct Effects {
  bool changed = false;  // worth keeping: something other than the step of a preparation
  std::vector<StopHost> stops;
  bool freed = false;  // a machine, while the job goes on
};

// A new job's state: hosts named algo-1…N, given to the groups in an order drawn from `random` (as SageMaker
// does, so that nobody comes to rely on one).
JobState new_job(const JobSpec& spec, int64_t now_ms, uint64_t random);

Effects apply(const JobSpec& spec, JobState& state, const JobEvent& event, int64_t now_ms);

constexpr double kDrainGraceS = 10;  // for a feed worker to make what it has been asked for
constexpr double kHelperGraceS = 5;  // a helper whose training has ended has nothing to save

}  // namespace stoker::control
