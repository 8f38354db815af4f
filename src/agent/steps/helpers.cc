// SPDX-License-Identifier: Apache-2.0
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

class HelpersStep : public Step {
 public:
  const char* name() const override { return "helpers"; }

  // The dispatcher knows which feed workers there are; it moves no data, so that it may stand outside the
  // quota.
  Status run(Instance& instance) override {
    if (!instance.runs_dispatcher()) return ok();
    const std::string& address = instance.assignment.feed.dispatchers.front();
    ProcessPlan dispatcher;
    dispatcher.name = "the feed's dispatcher";
    dispatcher.candidates = {instance.stoker};
    dispatcher.arguments = {instance.stoker, "feed-dispatcher",
                            "--listen",      "0.0.0.0" + address.substr(address.rfind(':')),
                            "--token-file",  "/opt/ml/input/config/feed-token"};
    if (instance.assignment.feed.sized)
      dispatcher.arguments.insert(dispatcher.arguments.end(),
                                  {"--sizing-file", "/opt/ml/telemetry/sizing.json"});
    dispatcher.environment = instance.plan.user.environment;
    dispatcher.folder = "/";
    dispatcher.log = instance.dispatcher_log.get();
    dispatcher.limited = false;
    instance.plan.helpers.push_back(std::move(dispatcher));
    return ok();
  }
};

}  // namespace

std::unique_ptr<Step> helpers_step() { return std::make_unique<HelpersStep>(); }

}  // namespace stoker::agent
