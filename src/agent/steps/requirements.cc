// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "agent/ownership.h"
#include "agent/process.h"
#include "agent/python_packages.h"
#include "agent/requirements_cache.h"
#include "agent/requirements_key.h"
#include "agent/steps/steps.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"

namespace stoker::agent {
namespace {

constexpr double kInstallLimit_s = 3600;
constexpr const char* kOtherPython = "; name another by --python";
constexpr int64_t kMostCacheBytes = int64_t{32} << 30;

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The same packages for the same interpreter, which has the same packages itself: what it has is not
// installed.
std::string identity(const std::string& digest, const std::string& python, const std::string& installed) {
  char real[PATH_MAX];
  std::string key = digest + '\0' + python + '\0' + (realpath(python.c_str(), real) ? real : python);
  struct stat info {};
  if (stat(python.c_str(), &info) == 0) key += '\0' + std::to_string(info.st_mtim.tv_sec);
  key += '\0' + installed;
  return sha256_hex(as_bytes(key)).substr(0, 32);
}

bool holds_none(const std::string& packages) { return installed_in({packages}) == packages + '\n'; }

// Where a virtual environment's own packages are, "" where it is none.
std::string own_packages(const std::string& environment) {
  std::error_code failed;
  for (std::filesystem::directory_iterator at(environment + "/lib", failed), end; !failed && at != end;
       at.increment(failed))
    if (std::string folder = at->path() / "site-packages"; exists(folder)) return folder;
  return {};
}

bool leads_pip_elsewhere(const std::string& variable) {
  return variable == "PIP_TARGET" || variable == "PIP_PREFIX" || variable == "PIP_ROOT" ||
         variable == "PIP_PYTHON";
}

class RequirementsStep : public Step {
 public:
  const char* name() const override { return "requirements"; }
  std::optional<std::string> users_fault(const Error& error) const override {
    if (!refused_) return std::nullopt;
    return error.message + *refused_;
  }

  // Outside the sandbox and before it, once for all instances and jobs with the same list; once for the
  // instances of one job where the list asks for what may change unseen.
  Status run(Instance& instance) override {
    const Assignment& a = instance.assignment;
    if (a.requirements_file.empty()) return ok();
    STOKER_TRY(look_at_python(instance));
    RequirementsKey key;
    std::string installed;
    {
      AsCaller caller(a.uid, a.gid);
      STOKER_ASSIGN(key, requirements_key(a.code_dir, a.requirements_file, a.environment));
      installed = installed_in(folders_);
    }
    const std::string cache = a.stoker_home + "/cache/requirements";
    STOKER_TRY(make_caller_folder(a.stoker_home + "/cache", a.uid, a.gid));
    STOKER_TRY(make_caller_folder(cache, a.uid, a.gid));
    const std::string folder =
        key.lasting ? cache + "/" + identity(key.digest, a.python, installed) : a.job_dir + "/packages";
    STOKER_ASSIGN(in_use_, open_caller_file(folder + ".lock", O_RDWR | O_CREAT, a.uid, a.gid));
    if (!exists(folder)) instance.events.emit(Preparing{"requirements"});
    STOKER_TRY(take(LOCK_SH, instance.stop));
    while (!exists(folder)) {
      STOKER_TRY(take(LOCK_EX, instance.stop));
      if (!exists(folder)) STOKER_TRY(install(instance, folder));
      STOKER_TRY(take(LOCK_SH, instance.stop));  // meanwhile another may have removed it
    }
    AsCaller caller(a.uid, a.gid);
    utimensat(AT_FDCWD, folder.c_str(), nullptr, 0);
    instance.packages = folder;
    return ok();
  }

  Status undo(Instance&) override {
    in_use_.reset();
    return ok();
  }

 private:
  Status take(int how, StopRequest& stop) const {
    while (flock(in_use_.get(), how | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return errno_error("lock the requirements", errno);
      pollfd fds{stop.fd(), POLLIN, 0};
      if (poll(&fds, 1, 50) > 0) return Error{Code::kCancelled, "stopped", {}};
    }
    return ok();
  }

  // As the caller, because what an environment does at start is a program too.
  Status look_at_python(Instance& instance) {
    const std::string& python = instance.assignment.python;
    STOKER_ASSIGN(UniqueFd said, make_memfd("stoker-python", 0));
    Command ask = as_caller(instance);
    ask.arguments = {python, "-c", kPrintPackageFolders};
    ask.output = said.get();
    STOKER_ASSIGN(int code, run_command(ask));
    STOKER_ASSIGN(std::string printed, read_text("/proc/self/fd/" + std::to_string(said.get())));
    if (code != 0) {
      refused_ = kOtherPython;
      while (printed.ends_with('\n')) printed.pop_back();
      return invalid(python + " does not say where its packages are: " +
                     std::string(cut_text(std::string_view(printed).substr(printed.rfind('\n') + 1), 300)));
    }
    folders_ = package_folders(printed);
    return ok();
  }

  // What the job's Python lacks, as pip finds that: it is run in an empty virtual environment that sees the
  // packages of the job's Python, so that it leaves those alone, whether they satisfy the list or not.
  // As the caller, because a package's set-up is a program. Renamed into place only when complete.
  Status install(Instance& instance, const std::string& folder) {
    const Assignment& a = instance.assignment;
    const std::string unfinished = folder + ".unfinished";
    STOKER_TRY(remove(instance, unfinished));
    Status installed = install_by_way_of(instance, unfinished, folder);
    Status removed = remove(instance, unfinished);
    STOKER_TRY(installed);
    STOKER_TRY(removed);
    AsCaller caller(a.uid, a.gid);
    evict_installations(a.stoker_home + "/cache/requirements", kMostCacheBytes);
    return ok();
  }

  // What pip and set-ups keep for themselves is in it too: of one that is killed nothing stays in /tmp.
  Status install_by_way_of(Instance& instance, const std::string& unfinished, const std::string& folder) {
    const Assignment& a = instance.assignment;
    const std::string temporary = unfinished + "/tmp";
    instance.log_line("installing what " + a.requirements_file + " asks for and " + a.python + " lacks");
    Command make = as_caller(instance);
    make.arguments = {a.python, "-m", "venv", "--without-pip", unfinished};
    STOKER_ASSIGN(int made, run_command(make));
    const std::string packages = own_packages(unfinished), seen = packages + "/stoker.pth";
    if (made != 0 || packages.empty()) {
      refused_ = kOtherPython;
      return invalid(a.python + " cannot make a virtual environment to install in; why is in the job's log");
    }
    {
      AsCaller caller(a.uid, a.gid);
      std::string lines;
      for (const std::string& each : folders_) lines += each + '\n';
      STOKER_TRY(write_file_atomic(seen, as_bytes(lines)));
      if (mkdir(temporary.c_str(), 0700) != 0) return errno_error("make folder " + temporary, errno);
    }
    Command pip = as_caller(instance);
    pip.arguments = {unfinished + "/bin/python",
                     "-m",
                     "pip",
                     "install",
                     "--no-input",
                     "--disable-pip-version-check",
                     "--progress-bar",
                     "off",
                     "--no-user",
                     "--target=",  // none, whatever pip.conf says
                     "-r",
                     a.requirements_file};
    pip.folder = a.code_dir;
    std::erase_if(pip.environment, [](const std::string& text) { return text.starts_with("TMPDIR="); });
    pip.environment.push_back("TMPDIR=" + temporary);
    STOKER_ASSIGN(int code, run_command(pip));
    if (code != 0) {
      refused_ = pips_reason(instance);
      return invalid("pip could not install " + a.requirements_file);
    }
    const bool installed = last_of_log(instance).find("\nSuccessfully installed ") != std::string::npos;
    {
      AsCaller caller(a.uid, a.gid);
      if (installed && holds_none(packages)) {
        refused_ = "";
        return invalid("pip installed elsewhere what " + a.requirements_file +
                       " asks for: its configuration (`pip config list`) names a prefix or root of its own");
      }
      ::unlink(seen.c_str());
      if (rename(packages.c_str(), folder.c_str()) != 0) return errno_error("rename " + packages, errno);
    }
    return ok();
  }

  static Status remove(const Instance& instance, const std::string& unfinished) {
    Command clear = as_caller(instance);
    clear.arguments = {find_program("rm"), "-rf", "--", unfinished};
    clear.cancel_fd = -1;  // a job that is stopped leaves nothing either
    STOKER_ASSIGN(int cleared, run_command(clear));
    if (cleared != 0) return internal("cannot remove " + unfinished + ", in which packages were installed");
    return ok();
  }

  static std::string last_of_log(const Instance& instance) {
    constexpr off_t kLast = 64 * 1024;
    const Assignment& a = instance.assignment;
    auto log = open_caller_file(instance.log_path(a.host), O_RDONLY, a.uid, a.gid);
    if (!log.ok()) return {};
    const off_t size = lseek(log->get(), 0, SEEK_END);
    std::string text(kLast, '\0');
    const ssize_t count = pread(log->get(), text.data(), text.size(), std::max<off_t>(size - kLast, 0));
    text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
    return text;
  }

  // The last line in which pip names an error, after a colon; where there is none, where its words are.
  static std::string pips_reason(const Instance& instance) {
    constexpr size_t kLongest = 300;
    constexpr std::string_view kMark = "ERROR: ";
    const std::string text = last_of_log(instance);
    size_t at = text.rfind(kMark);
    if (at == std::string::npos) return "; what pip said is in the job's log";
    at += kMark.size();
    return ": " +
           std::string(cut_text(std::string_view(text).substr(at, text.find('\n', at) - at), kLongest));
  }

  static Command as_caller(const Instance& instance) {
    const Assignment& a = instance.assignment;
    Command command;
    for (char** variable = environ; *variable; variable++) {
      const std::string text = *variable, name = text.substr(0, text.find('='));
      // What the server was started with says nothing of the packages that the job will see.
      const bool is_pythons = name == "PYTHONPATH" || name == "PYTHONHOME" || name == "PYTHONUSERBASE" ||
                              name == "PYTHONNOUSERSITE";
      if (!is_pythons && !leads_pip_elsewhere(name) && !a.environment.count(name))
        command.environment.push_back(text);
    }
    for (const auto& [name, value] : a.environment)
      if (!leads_pip_elsewhere(name)) command.environment.push_back(name + "=" + value);
    // HOME stays the server's, where pip's configuration and cache are.
    if (!a.environment.count("PYTHONUSERBASE")) {
      auto own = a.environment.find("HOME");
      const std::string home = own == a.environment.end() ? home_of(a.uid) : own->second;
      command.environment.push_back("PYTHONUSERBASE=" + home + "/.local");
    }
    command.uid = static_cast<uint32_t>(a.uid);
    command.gid = static_cast<uint32_t>(a.gid);
    command.output = instance.log.get();
    command.cancel_fd = instance.stop.fd();
    command.limit_s = kInstallLimit_s;
    return command;
  }

  std::vector<std::string> folders_;    // where the job's Python has its packages
  UniqueFd in_use_;                     // the lock of what was installed, until the instance has ended
  std::optional<std::string> refused_;  // what was given cannot be used: what to say behind the error
};

}  // namespace

std::unique_ptr<Step> requirements_step() { return std::make_unique<RequirementsStep>(); }

}  // namespace stoker::agent
