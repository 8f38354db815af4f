// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ownership.h"
#include "agent/process.h"
#include "agent/steps/steps.h"
#include "base/hash.h"

namespace stoker::agent {
namespace {

constexpr double kInstallLimit_s = 3600;

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The same text for the same interpreter is the same folder.
std::string identity(const std::string& text, const std::string& python) {
  char real[PATH_MAX];
  std::string key = text + '\0' + (realpath(python.c_str(), real) ? real : python);
  struct stat info {};
  if (stat(python.c_str(), &info) == 0) key += '\0' + std::to_string(info.st_mtim.tv_sec);
  return sha256_hex(as_bytes(key)).substr(0, 32);
}

class RequirementsStep : public Step {
 public:
  const char* name() const override { return "requirements"; }
  bool is_users_fault(const Error& error) const override { return error.code == Code::kInvalid; }

  // Outside the sandbox and before it, once for all instances and jobs with the same list.
  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    if (a.requirements_file.empty()) return ok();
    std::string text;
    {
      AsCaller caller(a.uid, a.gid);
      STOKER_ASSIGN(text, read_text(a.code_dir + "/" + a.requirements_file));
    }
    const std::string cache = a.stoker_home + "/cache/requirements";
    STOKER_TRY(make_caller_folder(a.stoker_home + "/cache", a.uid, a.gid));
    STOKER_TRY(make_caller_folder(cache, a.uid, a.gid));
    const std::string folder = cache + "/" + identity(text, a.python);
    if (!exists(folder)) {
      instance.events.emit(Preparing{"requirements"});
      STOKER_ASSIGN(UniqueFd lock, open_caller_file(folder + ".lock", O_RDWR | O_CREAT, a.uid, a.gid));
      STOKER_TRY(take(lock, instance.stop));
      if (!exists(folder)) STOKER_TRY(install(instance, folder));
    }
    instance.packages = folder;
    return ok();
  }

 private:
  static Status take(const UniqueFd& lock, StopRequest& stop) {
    while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return errno_error("lock the requirements", errno);
      pollfd fds{stop.fd(), POLLIN, 0};
      if (poll(&fds, 1, 50) > 0) return Error{Code::kCancelled, "stopped", {}};
    }
    return ok();
  }

  // As the caller, because a package's set-up is a program. Renamed into place only when complete.
  static Status install(Instance& instance, const std::string& folder) {
    const Assignment& a = instance.assignment;
    const std::string unfinished = folder + ".unfinished";
    Command clear = as_caller(instance);
    clear.arguments = {find_program("rm"), "-rf", "--", unfinished};
    STOKER_ASSIGN(int cleared, run_command(clear));
    if (cleared != 0) return internal("cannot remove " + unfinished + ", which an earlier installation left");
    instance.log_line("installing " + a.requirements_file);
    Command pip = as_caller(instance);
    pip.arguments = {
        a.python,         "-m",  "pip",      "install",  "--no-input", "--disable-pip-version-check",
        "--progress-bar", "off", "--target", unfinished, "-r",         a.requirements_file};
    pip.folder = a.code_dir;
    STOKER_ASSIGN(int code, run_command(pip));
    if (code != 0)
      return invalid("pip could not install " + a.requirements_file + " (exit code " + std::to_string(code) +
                     ")" + pips_reason(a.job_dir + "/logs/" + a.group + "/" + a.host + ".log") +
                     "; the job's log has all its words");
    AsCaller caller(a.uid, a.gid);
    if (rename(unfinished.c_str(), folder.c_str()) != 0) return errno_error("rename " + unfinished, errno);
    return ok();
  }

  // The last line in which pip names an error: ": ERROR: …", or nothing.
  static std::string pips_reason(const std::string& log) {
    constexpr size_t kLongest = 300;
    auto text = read_text(log);
    size_t at = text.ok() ? text->rfind("ERROR: ") : std::string::npos;
    if (at == std::string::npos) return "";
    return ": " + text->substr(at, std::min(text->find('\n', at) - at, kLongest));
  }

  static Command as_caller(const Instance& instance) {
    const Assignment& a = instance.assignment;
    Command command;
    for (char** variable = environ; *variable; variable++) command.environment.emplace_back(*variable);
    for (const auto& [name, value] : a.environment) command.environment.push_back(name + "=" + value);
    command.uid = static_cast<uint32_t>(a.uid);
    command.gid = static_cast<uint32_t>(a.gid);
    command.output = instance.log.get();
    command.cancel_fd = instance.stop.fd();
    command.limit_s = kInstallLimit_s;
    return command;
  }
};

}  // namespace

std::unique_ptr<Step> requirements_step() { return std::make_unique<RequirementsStep>(); }

}  // namespace stoker::agent
