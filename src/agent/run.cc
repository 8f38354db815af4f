// SPDX-License-Identifier: Apache-2.0
#include "agent/run.h"

#include <unistd.h>

#include "agent/instance.h"
#include "agent/steps/steps.h"
#include "agent/watch.h"

namespace stoker::agent {
namespace {

constexpr int kNotStarted = 125;  // what an instance ends with whose script never ran

using Outcome = decltype(AgentEvent::what);

void undo(Instance& instance, std::vector<std::unique_ptr<Step>>& steps, size_t count) {
  while (count-- > 0) {
    auto undone = steps[count]->undo(instance);
    if (!undone.ok())
      instance.events.emit(
          Notice{std::string("left behind by ") + steps[count]->name() + ": " + undone.error().message});
  }
}

}  // namespace

void run_instance(const Assignment& assignment, EventSink& events, StopRequest& stop,
                  const std::string& program) {
  Instance instance(assignment, events, stop, program);
  auto steps = instance_steps();
  events.emit(Preparing{"sandbox"});
  if (geteuid() != 0) {
    events.emit(
        Failed{"sandbox", "instances on this machine need root (namespaces, control groups, a bridge)"});
    events.emit(Released{});
    return;
  }
  size_t begun = 0;
  std::optional<Outcome> outcome;
  while (begun < steps.size() && !outcome) {
    if (stop.get()) {
      outcome = Stopped{};
      break;
    }
    Step& step = *steps[begun++];
    auto done = step.run(instance);
    if (done.ok()) continue;
    if (done.error().code == Code::kCancelled) {
      outcome = Stopped{};
    } else {
      instance.log_line(std::string(step.name()) + ": " + done.error().message);
      if (auto fault = step.users_fault(done.error()))
        outcome = Exited{kNotStarted, 0, false, std::move(*fault), ""};
      else
        outcome = Failed{step.name(), done.error().message};
    }
  }
  if (!outcome) {
    events.emit(Started{instance.sandbox->pid()});
    outcome = watch_instance(instance);
  }
  // The end first, for whoever waits for it; no process is left by now.
  events.emit(std::move(*outcome));
  undo(instance, steps, begun);
  events.emit(Released{});
}

Status clear_leftovers(const Assignment& assignment) {
  struct Nobody : EventSink {
    void emit(Outcome) override {}
  } nobody;
  StopRequest stop;
  Instance instance(assignment, nobody, stop, "");
  auto network = network_step(), limits = limits_step();
  STOKER_TRY(limits->undo(instance));
  return network->undo(instance);
}

}  // namespace stoker::agent
