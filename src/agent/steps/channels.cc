// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "agent/ownership.h"
#include "agent/steps/steps.h"

namespace stoker::agent {
namespace {

class ChannelsStep : public Step {
 public:
  const char* name() const override { return "channels"; }
  std::optional<std::string> users_fault(const Error& error) const override {
    if (error.code != Code::kInvalid) return std::nullopt;
    return error.message;
  }

  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    for (const auto& channel : a.channels) {
      STOKER_ASSIGN(std::string real, check(a, channel));
      instance.layout.bounds.push_back(
          {std::move(real), "/opt/ml/input/data/" + channel.name, channel.read_only});
    }
    return ok();
  }

 private:
  // A folder that the caller may not read must not become readable by being bound elsewhere. Without links,
  // so that what is hidden in it is found.
  static Result<std::string> check(const Assignment& a, const Channel& channel) {
    AsCaller caller(a.uid, a.gid);
    struct stat info {};
    if (stat(channel.path.c_str(), &info) != 0)
      return errno_error("input '" + channel.name + "': " + channel.path, errno);
    if (!S_ISDIR(info.st_mode))
      return invalid("input '" + channel.name + "': " + channel.path + " is not a folder");
    std::unique_ptr<char, decltype(&free)> real(realpath(channel.path.c_str(), nullptr), &free);
    if (!real) return errno_error("input '" + channel.name + "': " + channel.path, errno);
    return std::string(real.get());
  }
};

}  // namespace

std::unique_ptr<Step> channels_step() { return std::make_unique<ChannelsStep>(); }

}  // namespace stoker::agent
