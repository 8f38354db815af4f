// SPDX-License-Identifier: Apache-2.0
#include <grp.h>
#include <pwd.h>

#include "agent/ownership.h"
#include "agent/sagemaker.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

constexpr const char* kConfig = "/opt/ml/input/config/";
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

class ConfigStep : public Step {
 public:
  const char* name() const override { return "config"; }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    auto& files = instance.layout.files;
    const std::string config = kConfig;
    files[config + "hyperparameters.json"] = hyperparameters_file(a);
    files[config + "inputdataconfig.json"] = input_data_file(a);
    files[config + "resourceconfig.json"] = resource_file(a);
    if (!a.feed.token_file.empty()) {
      AsCaller caller(a.uid, a.gid);
      STOKER_ASSIGN(files[config + "feed-token"], read_text(a.feed.token_file));
      instance.layout.modes[config + "feed-token"] = 0400;
    }
    instance.layout.hosts_file = hosts_file(a);
    instance.plan.host_name = a.host;
    set_identity(instance);
    set_environment(instance);
    return ok();
  }

 private:
  static void set_identity(Instance& instance) {
    const Assignment& a = instance.assignment;
    instance.layout.uid = instance.plan.uid = static_cast<uint32_t>(a.uid);
    instance.layout.gid = instance.plan.gid = static_cast<uint32_t>(a.gid);
    instance.layout.memory_bytes = a.memory_bytes;
    instance.plan.groups = {instance.plan.gid};
    passwd* entry = getpwuid(static_cast<uid_t>(a.uid));
    if (!entry) return;
    gid_t groups[128];
    int count = 128;
    if (getgrouplist(entry->pw_name, entry->pw_gid, groups, &count) > 0)
      instance.plan.groups.assign(groups, groups + count);
    instance.environment["USER"] = instance.environment["LOGNAME"] = entry->pw_name;
  }

  // The job's own variables are in the map of sagemaker.h and win over what is set here.
  static void set_environment(Instance& instance) {
    const Assignment& a = instance.assignment;
    auto given = instance_environment(a);
    auto& env = instance.environment;
    for (auto& [name, value] : given) env[name] = value;
    const std::string bin = a.python.substr(0, a.python.rfind('/'));
    env.try_emplace("PATH", bin + ":" + kPath);
    env.try_emplace("HOME", home_of(a.uid));
    env.try_emplace("LANG", "C.UTF-8");
    env.try_emplace("XDG_CACHE_HOME", "/tmp/.cache");
    env.try_emplace("PYTHONUNBUFFERED", "1");  // the log is a file, which Python would fill 8 KiB at a time
    std::string path = "/opt/ml/code";
    if (!instance.packages.empty()) path += ":" + instance.packages;
    if (auto own = a.environment.find("PYTHONPATH"); own != a.environment.end()) path += ":" + own->second;
    env["PYTHONPATH"] = path;
  }
};

}  // namespace

std::unique_ptr<Step> config_step() { return std::make_unique<ConfigStep>(); }

}  // namespace stoker::agent
