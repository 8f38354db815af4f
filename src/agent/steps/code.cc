// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <sstream>

#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

// Where a name would be found: itself when it has a slash, else in each folder of PATH, of which an empty one
// is the working folder.
std::vector<std::string> candidates(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) return {name};
  std::vector<std::string> result;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    result.push_back((end == at ? "." : path.substr(at, end - at)) + "/" + name);
    at = end + 1;
  }
  return result;
}

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

class CodeStep : public Step {
 public:
  const char* name() const override { return "code"; }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    instance.layout.code_dir = a.code_dir;
    instance.plan.user = entry(instance);
    ProcessPlan& user = instance.plan.user;
    user.candidates = candidates(user.arguments.front(), instance.environment["PATH"]);
    user.folder = "/opt/ml/code";
    user.log = instance.log.get();
    for (const auto& [variable, value] : instance.environment)
      user.environment.push_back(variable + "=" + value);
    keep_readable(instance);
    return ok();
  }

 private:
  static ProcessPlan entry(const Instance& instance) {
    const Assignment& a = instance.assignment;
    // An interpreter must not take it for an option.
    std::string script = (a.entry.script.starts_with("-") ? "./" : "") + a.entry.script;
    ProcessPlan plan;
    if (!a.entry.command.empty())
      plan.arguments = a.entry.command;
    else if (a.entry.script.ends_with(".py"))
      plan.arguments = {a.python, script};
    else if (a.entry.script.ends_with(".sh"))
      plan.arguments = {"/bin/sh", script};
    else if (!a.entry.script.empty())
      plan.arguments = {"./" + a.entry.script};
    else
      return feed_worker(instance);
    plan.arguments.insert(plan.arguments.end(), a.entry.arguments.begin(), a.entry.arguments.end());
    return plan;
  }

  static ProcessPlan feed_worker(const Instance& instance) {
    const Assignment& a = instance.assignment;
    std::string dispatchers;
    for (const auto& address : a.feed.dispatchers) dispatchers += (dispatchers.empty() ? "" : ",") + address;
    ProcessPlan plan;
    plan.arguments = {instance.stoker, "feed-worker",
                      "--listen",      "0.0.0.0:7171",
                      "--advertise",   (a.feed.joins ? a.network.address : a.host) + ":7171",
                      "--dispatcher",  dispatchers,
                      "--token-file",  "/opt/ml/input/config/feed-token",
                      "--group",       a.group};
    plan.name = "the feed worker";
    plan.again = true;  // it holds nothing that its client would not ask for again
    return plan;
  }

  // The interpreter's environment and our own program, wherever they are installed.
  static void keep_readable(Instance& instance) {
    const Assignment& a = instance.assignment;
    auto& readable = instance.layout.readable;
    char real[PATH_MAX];
    if (realpath(a.python.c_str(), real)) readable.push_back(parent(parent(real)));
    if (std::string prefix = parent(parent(a.python)); readable.empty() || readable.front() != prefix)
      readable.push_back(prefix);
    if (!instance.packages.empty()) readable.push_back(instance.packages);
    readable.insert(readable.end(), a.readable.begin(), a.readable.end());
    // A package that is used from its checkout lies where no environment is; set-up has written down where.
    if (auto listed = read_text(parent(parent(instance.stoker)) + "/share/stoker/readable"); listed.ok()) {
      std::istringstream lines(*listed);
      for (std::string path; std::getline(lines, path);)
        if (path.starts_with('/')) readable.push_back(path);
    }
    instance.layout.readable_files.push_back(instance.stoker);
  }
};

}  // namespace

std::unique_ptr<Step> code_step() { return std::make_unique<CodeStep>(); }

}  // namespace stoker::agent
