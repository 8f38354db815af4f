// SPDX-License-Identifier: Apache-2.0
#include "control/job_state.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "base/text.h"

namespace stoker::control {

namespace {

constexpr const char* kPhases[] = {"queued",    "preparing", "running", "stopping",
                                   "completed", "failed",    "stopped"};
constexpr const char* kHostPhases[] = {"queued", "preparing", "running", "ended", "released"};
constexpr size_t kMaxReason = 1024;
constexpr size_t kMostNotices = 100;
constexpr int kPlatformExit = 125;

template <typename Enum, size_t N>
Enum enum_of(const char* const (&names)[N], const std::string& text, Enum otherwise) {
  for (size_t i = 0; i < N; ++i)
    if (text == names[i]) return static_cast<Enum>(i);
  return otherwise;
}

bool is_main(const JobSpec& spec, const HostState& host) {
  const JobGroup* group = spec.find_group(host.group);
  return group && group->spec.role == agent::Role::kNone;
}
bool has_ended(const HostState& host) { return host.phase >= HostPhase::kEnded; }
bool went_wrong(const HostState& host) {
  return !host.platform_error.empty() || (host.exit_code && *host.exit_code != 0);
}
bool was_started(const HostState& host) { return host.started_ms != 0; }
std::string label(const HostState& host) { return host.group + "/" + host.name; }

bool group_ended(const JobState& state, const std::string& group) {
  return std::all_of(state.hosts.begin(), state.hosts.end(),
                     [&](const HostState& host) { return host.group != group || has_ended(host); });
}

std::string users_error(const HostState& host) {
  if (!was_started(host))
    return "ClientError: " + host.reason + "; the script was not started (" + label(host) + ")";
  std::string code = "exit code: " + std::to_string(host.exit_code.value_or(0));
  if (!host.failure.empty())
    return "AlgorithmError: " + std::string(cut_text(host.failure, kMaxReason)) + ", " + code + " (" +
           label(host) + ")";
  return "AlgorithmError: " + (host.reason.empty() ? code : host.reason) + " (" + label(host) + ")";
}

class Step {
 public:
  Step(const JobSpec& spec, JobState& state, int64_t now_ms) : spec_(spec), state_(state), now_ms_(now_ms) {}

  void on(const StopAsked& event) {
    if (state_.outcome) return;  // already ending
    state_.stop_reason = event.reason;
    decide(JobPhase::kStopped);
    if (state_.phase == JobPhase::kQueued) {  // nothing was started
      for (HostState& host : state_.hosts) host.phase = HostPhase::kReleased;
    }
    effects_.changed = true;
  }

  void on(const Placed&) {
    if (state_.phase != JobPhase::kQueued) return;
    state_.phase = JobPhase::kPreparing;
    state_.placed_ms = now_ms_;
    for (HostState& host : state_.hosts) host.phase = HostPhase::kPreparing;
    effects_.changed = true;
  }

  void on(const FromAgent& event) {
    HostState* host = state_.find_host(event.host);
    if (!host || event.event.seq <= host->last_event) return;
    host->last_event = event.event.seq;
    if (host->phase == HostPhase::kReleased) return;
    std::visit([&](const auto& what) { take(*host, what); }, event.event.what);
  }

  void on(const AgentLost& event) {
    HostState* host = state_.find_host(event.host);
    if (!host || host->phase == HostPhase::kReleased) return;
    if (!has_ended(*host)) {
      host->platform_error = event.message;
      ends(*host);
    }
    release(*host);
    effects_.changed = true;
  }

  void on(const AgentSilent& event) {
    const HostState* host = state_.find_host(event.host);
    if (!host || host->phase == HostPhase::kReleased) return;
    const std::string about = label(*host) + ": its agent ";
    const std::string text =
        about +
        (event.back ? "is heard of again"
                    : "has not been heard of for a minute: it is paused, or the machine hangs; what "
                      "becomes of the instance is seen when it is back") +
        (event.back || state_.outcome ? "" : ", and `stoker stop` ends the job");
    // The same again is news, unless it is what was said last.
    auto last = std::find_if(state_.notices.rbegin(), state_.notices.rend(),
                             [&](const std::string& said) { return said.starts_with(about); });
    if (last == state_.notices.rend() || *last != text) add_notice(text);
  }

  void on(const Resized& event) {
    const JobGroup* group = spec_.find_group(event.group);
    const int64_t from = state_.instances(event.group);
    if (!group || !group->spec.elastic() || state_.outcome || event.to == from) return;
    FeedSize& size = state_.sizes[event.group];
    const std::string why = event.why.empty() ? size.asked.reason : event.why;
    for (int64_t there = from; there < event.to; ++there) add_extra(event.group);
    for (int64_t there = from; there > event.to; --there)
      drain_newest(event.group, event.why.empty() ? "fewer will do: " + why : why);
    if (event.to > from) size.told_not_free = false;
    if (event.to > from && state_.hosts.size() >= kMostHostsOfAJob)
      notice(event.group + " grows no more: the job has had " + std::to_string(state_.hosts.size()) +
             " instances, those it gave back included, which is the most");
    if (state_.resizes.size() >= kMostResizes) state_.resizes.erase(state_.resizes.begin());
    state_.resizes.push_back({now_ms_, event.group, from, state_.instances(event.group), why});
    effects_.changed = true;
  }

  void on(const NotFree& event) {
    FeedSize& size = state_.sizes[event.group];
    if (std::exchange(size.told_not_free, true)) return;
    notice(event.group + " would have " + std::to_string(size.asked.wanted) + " instances and has " +
           std::to_string(state_.instances(event.group)) + ": another one " + event.why);
  }

  Effects settle() {
    if (!is_over(state_.phase)) {
      become_running();
      judge();
      stop_what_must();
      finish();
    }
    return std::move(effects_);
  }

 private:
  void take(HostState& host, const agent::Preparing& what) {
    if (host.phase == HostPhase::kPreparing) host.step = what.step;
  }
  void take(HostState& host, const agent::Started&) {
    if (host.phase >= HostPhase::kRunning) return;
    host.phase = HostPhase::kRunning;
    host.step.clear();
    host.started_ms = now_ms_;
    effects_.changed = true;
  }
  void take(HostState& host, const agent::Exited& what) {
    host.reason = what.reason;
    host.failure = what.failure;
    end(host, what.code);
  }
  void take(HostState& host, const agent::Stopped& what) {
    host.killed = what.killed;
    end(host, what.code);
  }
  void take(HostState& host, const agent::Failed& what) {
    host.platform_error = what.step.empty() ? what.message : what.step + ": " + what.message;
    end(host, std::nullopt);
  }
  // What is weak in an instance that was told to end before it ran harms nobody: the network that it misses,
  // say, went with the others of the job.
  void take(HostState& host, const agent::Notice& what) {
    if (host.stop_sent && host.phase == HostPhase::kPreparing) return;
    notice(label(host) + ": " + what.text);
  }
  void take(HostState& host, const agent::WantedSize& what) {
    const JobGroup* group = spec_.find_group(what.group);
    if (!group || !group->spec.elastic() || group->spec.serves.front() != host.group) return;
    FeedSize& size = state_.sizes[what.group];
    if (size.asked == what) return;
    size.asked = what;
    size.asked_ms = now_ms_;
    effects_.changed = true;
  }
  void take(HostState& host, const agent::Released&) {
    if (!has_ended(host)) host.platform_error = "the agent released the instance before it had ended";
    release(host);
    effects_.changed = true;
  }

  void end(HostState& host, std::optional<int> code) {
    if (has_ended(host)) return;
    host.exit_code = code;
    ends(host);
    host.phase = HostPhase::kEnded;
    host.step.clear();
    effects_.changed = true;
  }
  void ends(HostState& host) {
    host.ended_ms = now_ms_;
    if (!host.extra || host.stop_sent || state_.outcome) return;
    FeedSize& size = state_.sizes[host.group];
    const int64_t failures = ++size.failures;
    size.again_ms = now_ms_ + failures * kAgainMs;
    const std::string why = !host.platform_error.empty() ? host.platform_error
                            : host.reason.empty()        ? "it ended"
                                                         : host.reason;
    notice(label(host) + ", which had been added, is gone: " + why +
           (failures >= kMostFailures ? "; the group grows no more" : ""));
  }
  void notice(std::string text) {
    const bool known = std::find(state_.notices.begin(), state_.notices.end(), text) != state_.notices.end();
    if (!known) add_notice(std::move(text));
  }
  void add_notice(std::string text) {
    if (state_.notices.size() >= kMostNotices) return;
    state_.notices.push_back(std::move(text));
    effects_.changed = true;
  }

  void add_extra(const std::string& group) {
    HostState host;
    host.name = "algo-" + std::to_string(state_.hosts.size() + 1);
    host.group = group;
    host.rank = std::count_if(state_.hosts.begin(), state_.hosts.end(),
                              [&](const HostState& other) { return other.group == group; });
    host.phase = HostPhase::kPreparing;
    host.extra = true;
    host.given_ms = now_ms_;
    state_.hosts.push_back(std::move(host));
  }
  void drain_newest(const std::string& group, const std::string& reason) {
    for (auto host = state_.hosts.rbegin(); host != state_.hosts.rend(); ++host) {
      if (host->group != group || !host->extra || host->stop_sent || has_ended(*host)) continue;
      host->stop_sent = true;
      effects_.stops.push_back({host->name, std::min(kDrainGraceS, spec_.grace_s), reason});
      return;
    }
  }
  void release(HostState& host) {
    host.phase = HostPhase::kReleased;
    host.step.clear();
    host.released_ms = now_ms_;
    effects_.freed = effects_.freed || host.extra;
    if (host.ended_ms == 0) host.ended_ms = now_ms_;
  }

  void become_running() {
    if (state_.phase != JobPhase::kPreparing) return;
    for (const HostState& host : state_.hosts)
      if (is_main(spec_, host) && host.phase < HostPhase::kRunning) return;
    state_.phase = JobPhase::kRunning;
    state_.running_ms = now_ms_;
  }

  void decide(JobPhase outcome) {
    state_.outcome = outcome;
    state_.outcome_ms = now_ms_;
  }
  void fail(std::string reason, int exit_code) {
    state_.failure_reason = std::move(reason);
    state_.exit_code = exit_code;
    decide(JobPhase::kFailed);
  }

  void judge() {
    if (state_.outcome) return;
    // The user's own failure is told before a consequence of it; among equals the one that ended first.
    const HostState* failed = nullptr;
    bool all_main_ended = true;
    for (const HostState& host : state_.hosts) {
      if (!host.platform_error.empty() && !host.extra)
        return fail("InternalServerError: " + host.platform_error + " (" + label(host) + ")", kPlatformExit);
      if (!is_main(spec_, host)) continue;
      all_main_ended = all_main_ended && has_ended(host);
      if (has_ended(host) && went_wrong(host) && (!failed || host.ended_ms < failed->ended_ms))
        failed = &host;
    }
    if (failed) return fail(users_error(*failed), *failed->exit_code);
    if (all_main_ended) return decide(JobPhase::kCompleted);
    judge_helpers();
  }

  // Helpers that have all gone with an error would leave the training waiting for ever.
  void judge_helpers() {
    for (const JobGroup& group : spec_.groups) {
      if (group.spec.role == agent::Role::kNone || !group_ended(state_, group.spec.name)) continue;
      const HostState* wrong = nullptr;
      for (const HostState& host : state_.hosts)
        if (host.group == group.spec.name && !host.stop_sent && went_wrong(host)) wrong = &host;
      if (wrong)
        return fail(users_error(*wrong) + " before the training had ended",
                    was_started(*wrong) ? 1 : kPlatformExit);
    }
  }

  void stop_what_must() {
    for (HostState& host : state_.hosts) {
      if (host.stop_sent || has_ended(host) || host.phase == HostPhase::kQueued) continue;
      const JobGroup* group = spec_.find_group(host.group);
      bool helper = group && group->spec.role != agent::Role::kNone;
      bool training_ended =
          helper && std::all_of(group->spec.serves.begin(), group->spec.serves.end(),
                                [&](const std::string& name) { return group_ended(state_, name); });
      // While a training that was told to stop saves what it has, its helpers go on: it may wait for them.
      if (helper ? !training_ended : !state_.outcome) continue;
      host.stop_sent = true;
      double grace = helper ? std::min(kHelperGraceS, spec_.grace_s) : spec_.grace_s;
      std::string why = helper                                   ? "the training it serves has ended"
                        : state_.outcome == JobPhase::kStopped   ? state_.stop_reason
                        : state_.outcome == JobPhase::kCompleted ? "the job has ended"
                                                                 : "another instance of the job failed";
      effects_.stops.push_back({host.name, grace, std::move(why)});
      effects_.changed = true;
    }
  }

  void finish() {
    if (!state_.outcome) return;
    bool all_released = std::all_of(state_.hosts.begin(), state_.hosts.end(),
                                    [](const HostState& host) { return host.phase == HostPhase::kReleased; });
    if (!all_released) {
      state_.phase = JobPhase::kStopping;
      return;
    }
    if (state_.outcome == JobPhase::kStopped && state_.exit_code == 0) {
      for (const HostState& host : state_.hosts)
        if (is_main(spec_, host) && host.exit_code.value_or(0) != 0 && state_.exit_code == 0)
          state_.exit_code = *host.exit_code;
    }
    state_.phase = *state_.outcome;
    state_.over_ms = now_ms_;
    effects_.changed = true;
  }

  const JobSpec& spec_;
  JobState& state_;
  int64_t now_ms_;
  Effects effects_;
};

}  // namespace

const char* phase_name(JobPhase phase) { return kPhases[static_cast<size_t>(phase)]; }
bool is_over(JobPhase phase) { return phase >= JobPhase::kCompleted; }

HostState* JobState::find_host(const std::string& host_name) {
  for (HostState& host : hosts)
    if (host.name == host_name) return &host;
  return nullptr;
}

JobState new_job(const JobSpec& spec, int64_t now_ms, uint64_t random) {
  JobState state;
  state.created_ms = now_ms;
  std::vector<HostState> places;  // one per instance, in order of groups
  for (const JobGroup& group : spec.groups) {
    for (int64_t rank = 0; rank < group.spec.count; ++rank) {
      HostState host;
      host.group = group.spec.name;
      places.push_back(std::move(host));
    }
  }
  SampleRandom draws(seed_key(random), 0, 0);
  for (size_t i = places.size(); i > 1; --i) std::swap(places[i - 1], places[draws.next_below(i)]);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].name = "algo-" + std::to_string(i + 1);
    places[i].rank = std::count_if(state.hosts.begin(), state.hosts.end(),
                                   [&](const HostState& host) { return host.group == places[i].group; });
    state.hosts.push_back(std::move(places[i]));
  }
  return state;
}

int64_t JobState::instances(const std::string& group) const {
  return std::count_if(hosts.begin(), hosts.end(), [&](const HostState& host) {
    return host.group == group && !host.stop_sent && !has_ended(host);
  });
}

Effects apply(const JobSpec& spec, JobState& state, const JobEvent& event, int64_t now_ms) {
  if (is_over(state.phase)) return {};
  Step step(spec, state, now_ms);
  std::visit([&](const auto& what) { step.on(what); }, event);
  return step.settle();
}

Json JobState::to_json() const {
  Json json;
  json.set("phase", phase_name(phase)).set("outcome", outcome ? Json(phase_name(*outcome)) : Json());
  json.set("failure_reason", failure_reason).set("stop_reason", stop_reason).set("exit_code", exit_code);
  json.set("created_ms", created_ms).set("placed_ms", placed_ms).set("running_ms", running_ms);
  json.set("outcome_ms", outcome_ms).set("over_ms", over_ms);
  Json::Array host_list;
  for (const HostState& host : hosts) {
    Json item;
    item.set("name", host.name).set("group", host.group).set("rank", host.rank);
    item.set("phase", kHostPhases[static_cast<size_t>(host.phase)]);
    item.set("stop_sent", host.stop_sent).set("killed", host.killed);
    item.set("exit_code", host.exit_code ? Json(*host.exit_code) : Json());
    item.set("reason", host.reason).set("failure", host.failure).set("platform_error", host.platform_error);
    item.set("last_event", host.last_event).set("started_ms", host.started_ms);
    item.set("ended_ms", host.ended_ms).set("released_ms", host.released_ms);
    item.set("extra", host.extra).set("given_ms", host.given_ms);
    host_list.push_back(std::move(item));
  }
  json.set("hosts", std::move(host_list));
  Json::Array notice_list;
  for (const std::string& notice : notices) notice_list.emplace_back(notice);
  json.set("notices", std::move(notice_list));
  Json::Object size_list;
  for (const auto& [name, size] : sizes) size_list[name] = size.to_json();
  Json::Array resize_list;
  for (const Resize& resize : resizes) resize_list.push_back(resize.to_json());
  json.set("sizes", std::move(size_list)).set("resizes", std::move(resize_list));
  return json;
}

Json JobState::shown() const {
  Json json = to_json();
  Json::Array host_list = json["hosts"].as_array();
  for (size_t i = 0; i < hosts.size(); ++i) host_list[i].set("step", hosts[i].step);
  Json there = Json::Object{};
  for (const HostState& host : hosts) there.set(host.group, instances(host.group));
  json.set("hosts", std::move(host_list)).set("instances", std::move(there));
  return json;
}

Result<JobState> JobState::from_json(const Json& json) {
  JobState state;
  STOKER_ASSIGN(std::string phase, json.need_string("phase"));
  state.phase = enum_of(kPhases, phase, JobPhase::kFailed);
  if (json["outcome"].is_string())
    state.outcome = enum_of(kPhases, json["outcome"].as_string(), JobPhase::kFailed);
  state.failure_reason = json["failure_reason"].as_string();
  state.stop_reason = json["stop_reason"].as_string();
  state.exit_code = static_cast<int>(json["exit_code"].as_int());
  state.created_ms = json["created_ms"].as_int();
  state.placed_ms = json["placed_ms"].as_int();
  state.running_ms = json["running_ms"].as_int();
  state.outcome_ms = json["outcome_ms"].as_int();
  state.over_ms = json["over_ms"].as_int();
  for (const Json& item : json["hosts"].as_array()) {
    HostState host;
    STOKER_ASSIGN(host.name, item.need_string("name"));
    STOKER_ASSIGN(host.group, item.need_string("group"));
    host.rank = item["rank"].as_int();
    host.phase = enum_of(kHostPhases, item["phase"].as_string(), HostPhase::kReleased);
    host.stop_sent = item["stop_sent"].as_bool();
    host.killed = item["killed"].as_bool();
    if (item["exit_code"].is_int()) host.exit_code = static_cast<int>(item["exit_code"].as_int());
    host.reason = item["reason"].as_string();
    host.failure = item["failure"].as_string();
    host.platform_error = item["platform_error"].as_string();
    host.last_event = item["last_event"].as_int();
    host.started_ms = item["started_ms"].as_int();
    host.ended_ms = item["ended_ms"].as_int();
    host.released_ms = item["released_ms"].as_int();
    host.extra = item["extra"].as_bool();
    host.given_ms = item["given_ms"].as_int();
    state.hosts.push_back(std::move(host));
  }
  for (const Json& notice : json["notices"].as_array()) state.notices.push_back(notice.as_string());
  for (const auto& [name, size] : json["sizes"].as_object()) state.sizes[name] = FeedSize::from_json(size);
  for (const Json& resize : json["resizes"].as_array()) state.resizes.push_back(Resize::from_json(resize));
  return state;
}

}  // namespace stoker::control
