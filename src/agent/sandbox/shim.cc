// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/shim.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/sandbox/refused_calls.h"

namespace stoker::agent {
namespace {

constexpr int kHighestSignal = 64;
constexpr int64_t kMostStarts = 20;  // of one process

[[noreturn]] void leave(int code) { syscall(SYS_exit_group, code), __builtin_unreachable(); }

void say(int control, ShimMessage::Kind kind, int value, const char* where = "") {
  ShimMessage message{kind, value, {}};
  strncpy(message.where, where, sizeof message.where - 1);
  while (send(control, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void give_up(int control, const char* where) {
  say(control, ShimMessage::Kind::kFailed, errno, where);
  leave(1);
}

// A clone has every descriptor of the agent: its end of the control socket, its talk with the server.
void close_others(const ShimPlan& shim, int control) {
  unsigned from = 3;
  bool past_control = false;
  auto keep = [&from](int fd) {
    if (fd < static_cast<int>(from)) return;
    if (fd > static_cast<int>(from)) syscall(SYS_close_range, from, static_cast<unsigned>(fd) - 1, 0u);
    from = static_cast<unsigned>(fd) + 1;
  };
  for (int fd : shim.kept) {
    if (!past_control && control < fd) keep(control), past_control = true;
    keep(fd);
  }
  if (!past_control) keep(control);
  syscall(SYS_close_range, from, ~0u, 0u);
}

bool wait_for_go(int control) {
  ShimMessage message;
  ssize_t count;
  while ((count = recv(control, &message, sizeof message, 0)) < 0 && errno == EINTR) {
  }
  return count == sizeof message && message.kind == ShimMessage::Kind::kGo;
}

bool set_capabilities(uint32_t permitted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {{permitted, permitted, 0}, {0, 0, 0}};
  return syscall(SYS_capset, &header, data) == 0;
}

// Signals as a fresh process has them: nothing blocked, nothing ignored.
void reset_signals() {
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  for (int signal = 1; signal <= kHighestSignal; signal++) sigaction(signal, &normal, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// From root to the caller, with no way back: also a caller who is root keeps no capability.
bool become_user(const ShimPlan& shim) {
  const SandboxPlan& plan = shim.plan;
  for (int capability = 0; capability <= shim.last_capability; capability++)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL) return false;
  if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED) != 0) return false;
  if (syscall(SYS_setgroups, plan.groups.size(), plan.groups.data()) != 0) return false;
  if (syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid) != 0) return false;
  if (syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid) != 0) return false;
  return set_capabilities(0) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && refuse_calls(plan.uid == 0);
}

bool join_groups(const SandboxPlan& plan) {
  for (int file : plan.join_files)
    if (write(file, "0", 1) != 1) return false;
  return true;
}

bool take_streams(int log) {
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return null >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2;
}

// As execvpe searches: an unreadable candidate is remembered, a missing one is not.
void execute(const ProcessPlan& process, const ExecArrays& arrays) {
  int failed = ENOENT;
  for (const auto& candidate : process.candidates) {
    execve(candidate.c_str(), arrays.arguments.data(), arrays.environment.data());
    if (errno != ENOENT && errno != ENOTDIR) failed = errno;
  }
  errno = failed;
}

[[noreturn]] void run_process(const ShimPlan& shim, const ProcessPlan& process, const ExecArrays& arrays,
                              int report) {
  const SandboxPlan& plan = shim.plan;
  prctl(PR_SET_PDEATHSIG, 0);
  setsid();
  umask(022);
  bool ready = (!process.limited || join_groups(plan)) && take_streams(process.log) && become_user(shim) &&
               chdir(process.folder.c_str()) == 0;
  if (ready) {
    reset_signals();
    syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
    execute(process, arrays);
  }
  int failed = errno;
  [[maybe_unused]] ssize_t written = write(report, &failed, sizeof failed);
  leave(127);
}

// Returns the pid, or -errno where the process could not be executed.
int64_t start(const ShimPlan& shim, const ProcessPlan& process, const ExecArrays& arrays) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return -errno;
  int group = process.limited ? shim.plan.user_group : -1;
  int64_t pid = clone_process(0, nullptr, group);
  if (pid == 0) run_process(shim, process, arrays, pipe_fds[1]);
  int failed = pid < 0 ? errno : 0;
  close(pipe_fds[1]);
  ssize_t count = 0;
  while (pid > 0 && (count = read(pipe_fds[0], &failed, sizeof failed)) < 0 && errno == EINTR) {
  }
  close(pipe_fds[0]);
  return failed ? -failed : pid;
}

bool start_helper(const ShimPlan& shim, size_t i) {
  shim.helper_starts[i]++;
  shim.helper_pids[i] = start(shim, shim.plan.helpers[i], shim.helpers[i]);
  return shim.helper_pids[i] > 0;
}

void helper_ended(const ShimPlan& shim, int control, pid_t pid, int status) {
  for (size_t i = 0; i < shim.helper_pids.size(); i++) {
    if (shim.helper_pids[i] != pid) continue;
    const bool again = shim.helper_starts[i] < kMostStarts && start_helper(shim, i);
    const char* name = shim.plan.helpers[i].name.c_str();
    say(control, again ? ShimMessage::Kind::kRestarted : ShimMessage::Kind::kHelperLost, status, name);
  }
}

// Reaps whatever ended. true when the user's process is among it.
bool reap(const ShimPlan& shim, int control, pid_t user, int* status) {
  int one = 0;
  for (pid_t pid; (pid = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (pid == user) {
      *status = one;
      return true;
    }
    helper_ended(shim, control, pid, one);
  }
  return false;
}

[[noreturn]] void watch(const ShimPlan& shim, int control, int signals, pid_t user) {
  int64_t starts = 1;
  bool told_to_end = false;
  pollfd fds[2] = {{control, POLLIN, 0}, {signals, POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) leave(1);
    if (fds[1].revents) {
      signalfd_siginfo info;
      while (read(signals, &info, sizeof info) > 0) {
      }
      for (int status = 0; reap(shim, control, user, &status);) {
        int64_t next = 0;
        if (shim.plan.user.again && !told_to_end && starts++ < kMostStarts)
          next = start(shim, shim.plan.user, shim.user);
        if (next <= 0) {
          say(control, ShimMessage::Kind::kEnded, status);
          leave(0);
        }
        user = static_cast<pid_t>(next);
        say(control, ShimMessage::Kind::kRestarted, status, shim.plan.user.name.c_str());
      }
    }
    if (fds[0].revents) {
      ShimMessage message;
      ssize_t count = recv(control, &message, sizeof message, 0);
      if (count == 0) leave(1);  // the agent is gone
      if (count == sizeof message && message.kind == ShimMessage::Kind::kSignal) {
        told_to_end = true;
        kill(user, message.value);
        kill(user, SIGCONT);  // one that is paused would hear nothing for all of its grace
      }
    }
  }
}

}  // namespace

ExecArrays::ExecArrays(const ProcessPlan& plan) {
  for (const auto& argument : plan.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  for (const auto& variable : plan.environment) environment.push_back(const_cast<char*>(variable.c_str()));
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
}

ShimPlan::ShimPlan(const SandboxPlan& sandbox) : plan(sandbox), user(sandbox.user), kept(sandbox.join_files) {
  kept.push_back(sandbox.user.log);
  for (const auto& helper : sandbox.helpers) kept.push_back(helper.log);
  kept.push_back(sandbox.user_group);
  std::sort(kept.begin(), kept.end());
  for (const auto& helper : sandbox.helpers) helpers.emplace_back(helper);
  helper_pids.resize(helpers.size());
  helper_starts.resize(helpers.size());
  while (prctl(PR_CAPBSET_READ, last_capability + 1, 0, 0, 0) >= 0 && last_capability < 62) last_capability++;
}

int64_t clone_process(uint64_t flags, int* pidfd, int group) {
  clone_args arguments{};
  arguments.flags = flags | (pidfd ? CLONE_PIDFD : 0) | (group >= 0 ? uint64_t{CLONE_INTO_CGROUP} : 0);
  arguments.pidfd = reinterpret_cast<uint64_t>(pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = group >= 0 ? static_cast<uint64_t>(group) : 0;
  return syscall(SYS_clone3, &arguments, sizeof arguments);
}

void run_shim(const ShimPlan& shim, int control) {
  const SandboxPlan& plan = shim.plan;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Not for the user's eyes: the agent's memory is still mapped here.
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NAME, "stoker-shim");
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &normal, nullptr);

  close_others(shim, control);
  const char* where = "host name";
  if (sethostname(plan.host_name.c_str(), plan.host_name.size()) != 0) give_up(control, where);
  if (!build_tree(plan.mounts, &where)) give_up(control, where);
  if (!wait_for_go(control)) leave(1);  // the agent gave up or is gone
  if (!set_up_network(plan, &where)) give_up(control, where);

  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) give_up(control, "signalfd");
  for (size_t i = 0; i < shim.helpers.size(); i++)
    if (!start_helper(shim, i)) {
      errno = static_cast<int>(-shim.helper_pids[i]);
      give_up(control, plan.helpers[i].candidates.front().c_str());
    }
  int64_t user = start(shim, plan.user, shim.user);
  if (user < 0) {
    say(control, ShimMessage::Kind::kNotStarted, static_cast<int>(-user));
    leave(1);
  }
  say(control, ShimMessage::Kind::kStarted, 0);
  // Only what the loop below needs: signals to another user's processes, and to become that user for a
  // process that is started again.
  const uint32_t to_start_again = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_SETPCAP;
  if (!set_capabilities(1u << CAP_KILL | (plan.helpers.empty() && !plan.user.again ? 0 : to_start_again)))
    leave(1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  watch(shim, control, signals, static_cast<pid_t>(user));
}

}  // namespace stoker::agent
