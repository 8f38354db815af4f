// SPDX-License-Identifier: Apache-2.0
#include "control/providers/local.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"

namespace stoker::control {

namespace {

UniqueFd open_pidfd(int pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

// When the process started, in clock ticks since boot: with the pid it names a process for good. 0 if it is
// gone.
int64_t start_time(int pid) {
  auto text = read_text("/proc/" + std::to_string(pid) + "/stat");
  if (!text.ok()) return 0;
  size_t at = text->rfind(')');
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = text->find(' ', at + 1);
  return at == std::string::npos ? 0 : std::strtoll(text->c_str() + at, nullptr, 10);
}

constexpr const char* kEndedWell = "exit code 0";

std::string how_it_ended(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return "exit code " + std::to_string(info.si_status);
  return std::string("killed by signal ") + std::to_string(info.si_status) + " (" +
         ::strsignal(info.si_status) + ")";
}

}  // namespace

LocalProvider::LocalProvider(http::Loop& loop, Options options, Ended ended)
    : loop_(loop), options_(std::move(options)), ended_(std::move(ended)) {}

LocalProvider::~LocalProvider() {
  for (auto& [agent, process] : processes_) loop_.unwatch(process.pidfd.get());
}

std::string LocalProvider::note_path(const std::string& agent) const {
  return options_.home + "/run/agents/" + agent;
}

Status LocalProvider::open() {
  std::string folder = options_.home + "/run/agents";
  STOKER_TRY(make_directories(folder, 0700));
  DIR* open = ::opendir(folder.c_str());
  if (!open) return errno_error("reading " + folder, errno);
  std::vector<std::string> agents;
  while (const dirent* entry = ::readdir(open))
    if (entry->d_name[0] != '.') agents.emplace_back(entry->d_name);
  ::closedir(open);
  for (const std::string& agent : agents) {
    auto text = read_text(note_path(agent));
    auto note = text.ok() ? Json::parse(*text) : Result<Json>(Json());
    Process process;
    process.pid = note.ok() ? static_cast<int>((*note)["pid"].as_int()) : 0;
    process.is_child = false;
    if (note.ok()) process.assignment = (*note)["assignment"].as_string();
    if (process.pid > 0) process.pidfd = open_pidfd(process.pid);
    // The order matters: a pid that is open cannot be reused between the check and a later signal.
    if (process.pidfd && start_time(process.pid) == (*note)["started"].as_int()) {
      watch(agent, std::move(process));
    } else {
      std::string assignment = note.ok() ? (*note)["assignment"].as_string() : "";
      if (clear(agent, assignment, "its server") == Clearing::kNothing) ::unlink(note_path(agent).c_str());
    }
  }
  return ok();
}

Result<LocalProvider::Process> LocalProvider::spawn(std::vector<std::string> arguments,
                                                    const std::string& assignment) {
  std::string log = std::filesystem::path(assignment).replace_extension("agent.log");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, standard;
  sigemptyset(&none);
  sigfillset(&standard);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  arguments.insert(arguments.begin(), {options_.binary, "agent", "--assignment", assignment});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Process process;
  int error =
      ::posix_spawn(&process.pid, options_.binary.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return errno_error("starting " + options_.binary + " agent", error);

  process.pidfd = open_pidfd(process.pid);
  if (!process.pidfd) {  // nobody could stop it later
    Error failed = errno_error("holding the agent's process", errno);
    ::kill(process.pid, SIGKILL);
    while (::waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return failed;
  }
  process.assignment = assignment;
  return process;
}

Status LocalProvider::acquire(const std::string& agent, const agent::Assignment& assignment) {
  std::string file = assignment.job_dir + "/run/" + assignment.host + ".json";
  STOKER_TRY(write_file_atomic(file, as_bytes(assignment.to_json().dump()), 0600));
  STOKER_ASSIGN(Process process, spawn({"--server", options_.socket, "--id", agent}, file));
  Json note;
  note.set("pid", process.pid).set("started", start_time(process.pid)).set("assignment", file);
  if (Status noted = write_file_atomic(note_path(agent), as_bytes(note.dump()), 0600); !noted.ok())
    log_line(LogLevel::kWarn, "local",
             "a later server will not find " + agent + ": " + noted.error().message);
  watch(agent, std::move(process));
  return ok();
}

LocalProvider::Clearing LocalProvider::clear(const std::string& agent, const std::string& assignment,
                                             const std::string& how) {
  if (assignment.empty() || ::access(assignment.c_str(), R_OK) != 0) return Clearing::kNothing;
  auto process = spawn({"--clear"}, assignment);
  if (!process.ok()) {
    log_line(LogLevel::kError, "local", "cannot clear what " + agent + " left: " + process.error().message);
    return Clearing::kFailed;
  }
  process->cleared_after = how;
  watch(agent, std::move(*process));
  return Clearing::kStarted;
}

void LocalProvider::watch(const std::string& agent, Process process) {
  int fd = process.pidfd.get();
  processes_[agent] = std::move(process);
  loop_.watch(fd, [this, agent] { on_end(agent); });
}

void LocalProvider::on_end(const std::string& agent) {
  auto at = processes_.find(agent);
  if (at == processes_.end()) return;
  std::string how = "an unknown end";
  if (at->second.is_child) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(at->second.pid), &info, WEXITED | WNOHANG) == 0 && info.si_pid == 0)
      return;  // not yet
    how = how_it_ended(info);
  }
  loop_.unwatch(at->second.pidfd.get());
  Process ended = std::move(at->second);
  processes_.erase(at);
  const bool well = how == kEndedWell;
  bool cleared = well;
  if (!ended.cleared_after.empty()) {
    if (!well) log_line(LogLevel::kError, "local", "clearing what " + agent + " left ended with " + how);
    how = ended.cleared_after;
  } else if (!well) {
    const Clearing clearing = clear(agent, ended.assignment, how);
    if (clearing == Clearing::kStarted) return;
    cleared = clearing == Clearing::kNothing;
  }
  // What could not be cleared is the next server's to try again.
  if (cleared) ::unlink(note_path(agent).c_str());
  ended_(agent, how);
}

void LocalProvider::wake(const std::string& agent) { signal(agent, SIGCONT); }

// What is paused hears nothing before it goes on.
void LocalProvider::release(const std::string& agent) {
  signal(agent, SIGTERM);
  wake(agent);
}

void LocalProvider::kill(const std::string& agent) { signal(agent, SIGKILL); }

void LocalProvider::signal(const std::string& agent, int number) {
  auto at = processes_.find(agent);
  if (at != processes_.end()) ::syscall(SYS_pidfd_send_signal, at->second.pidfd.get(), number, nullptr, 0);
}

std::vector<std::string> LocalProvider::list() const {
  std::vector<std::string> agents;
  for (const auto& [agent, process] : processes_) agents.push_back(agent);
  return agents;
}

bool LocalProvider::owes(const std::string& agent) const {
  return processes_.count(agent) == 0 && ::access(note_path(agent).c_str(), F_OK) == 0;
}

}  // namespace stoker::control
