// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include "agent/ownership.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

class FoldersStep : public Step {
 public:
  const char* name() const override { return "folders"; }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    auto make = [&](const std::string& name) {
      return make_caller_folder(a.job_dir + "/" + name, a.uid, a.gid);
    };
    for (const std::string& name :
         {std::string("logs"), "logs/" + a.group, std::string("telemetry"), "telemetry/" + a.host,
          std::string("metrics"), std::string("model"), std::string("checkpoints"), std::string("output"),
          "output/" + a.host, "output/" + a.host + "/data"})
      STOKER_TRY(make(name));
    // What the script writes to is this file itself: a byte that its write() returned for is there.
    STOKER_ASSIGN(instance.log, open_log(instance, a.host));
    if (instance.runs_dispatcher()) {
      STOKER_ASSIGN(instance.dispatcher_log, open_log(instance, "dispatcher"));
    }

    auto& bounds = instance.layout.bounds;
    bounds.push_back({a.job_dir + "/output/" + a.host, "/opt/ml/output"});
    bounds.push_back({a.job_dir + "/telemetry/" + a.host, "/opt/ml/telemetry"});
    if (instance.is_helper()) {
      // What a helper leaves there is nobody's result.
      instance.layout.folders = {"/opt/ml/model", "/opt/ml/checkpoints"};
    } else {
      bounds.push_back({a.job_dir + "/model", "/opt/ml/model"});
      bounds.push_back({a.job_dir + "/checkpoints", "/opt/ml/checkpoints"});
    }
    instance.layout.folders.push_back("/opt/ml/input/data");
    instance.layout.hidden = a.stoker_home;
    return ok();
  }

 private:
  static Result<UniqueFd> open_log(Instance& instance, const std::string& name) {
    const Assignment& a = instance.assignment;
    return open_caller_file(instance.log_path(name), O_WRONLY | O_CREAT | O_APPEND, a.uid, a.gid);
  }
};

}  // namespace

std::unique_ptr<Step> folders_step() { return std::make_unique<FoldersStep>(); }

}  // namespace stoker::agent
