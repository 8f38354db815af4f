// SPDX-License-Identifier: Apache-2.0
// One instance in the making: what the steps read and add to. Each step fills in what is its own; `start`
// uses it all. Confined to the agent's main thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "agent/cgroup.h"
#include "agent/events.h"
#include "agent/protocol.h"
#include "agent/sandbox/layout.h"
#include "agent/sandbox/plan.h"
#include "agent/sandbox/sandbox.h"
#include "agent/sizing_news.h"
#include "telemetry/series.h"

namespace stoker::agent {

struct Instance {
  Instance(const Assignment& given, EventSink& sink, StopRequest& stop_request, std::string program)
      : assignment(given), events(sink), stop(stop_request), stoker(std::move(program)) {}

  const Assignment& assignment;
  EventSink& events;
  StopRequest& stop;
  const std::string stoker;  // our own executable, for helpers inside

  LayoutInput layout;
  SandboxPlan plan;
  std::map<std::string, std::string> environment;
  std::string packages;     // folder of the installed requirements, "" for none
  UniqueFd log;             // logs/GROUP/algo-N.log
  UniqueFd dispatcher_log;  // logs/GROUP/dispatcher.log, on the host that runs it
  std::optional<Cgroup> cgroup;
  std::optional<Sandbox> sandbox;
  std::optional<telemetry::LineWriter> metrics;
  SizingNews sizing;

  bool is_helper() const { return assignment.role != Role::kNone; }
  bool runs_dispatcher() const;
  std::string cgroup_name() const;
  std::string interface() const;  // of the host's end of the veth
  std::string log_path(const std::string& name) const;
  void log_line(const std::string& text);  // into the user's log, marked as ours
};

// One thing that is done for an instance and undone after it. run() may find what an earlier attempt left;
// undo() is called in reverse order, also after a run() that failed halfway.
class Step {
 public:
  virtual ~Step() = default;
  virtual const char* name() const = 0;
  // Where run() failed for what the user gave (a wrong requirement): why, for the job's record. Nothing where
  // the platform is to blame.
  virtual std::optional<std::string> users_fault(const Error&) const { return std::nullopt; }
  virtual Status run(Instance& instance) = 0;
  virtual Status undo(Instance&) { return ok(); }
};

}  // namespace stoker::agent
