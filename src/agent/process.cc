// SPDX-License-Identifier: Apache-2.0
#include "agent/process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "agent/sandbox/shim.h"
#include "base/clock.h"
#include "base/files.h"

namespace stoker::agent {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const auto& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// Waits for the program, and ends as it did. In a PID namespace this is its process 1: with it ends whatever
// the program left running, in whichever session.
[[noreturn]] void stand_by(pid_t program) {
  int status = 0;
  for (pid_t ended = 0; ended != program;)
    if (ended = waitpid(-1, &status, 0); ended < 0 && errno != EINTR) _exit(127);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

// In a clone: system calls only.
[[noreturn]] void become(const Command& command, char** arguments, char** environment, int input,
                         int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setsid();
  bool ready = dup2(input, 0) == 0 && dup2(output, 1) == 1 && dup2(output, 2) == 2;
  if (command.uid) {
    uid_t uid = *command.uid;
    gid_t gid = command.gid.value_or(uid);
    ready = ready && syscall(SYS_setgroups, 0, nullptr) == 0 && syscall(SYS_setresgid, gid, gid, gid) == 0 &&
            syscall(SYS_setresuid, uid, uid, uid) == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // the change of user cleared it
  }
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &normal, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  syscall(SYS_close_range, 3u, ~0u, 0u);
  ready = ready && chdir(command.folder.c_str()) == 0;
  const auto program = static_cast<pid_t>(ready ? clone_process(0, nullptr, -1) : -1);
  if (program > 0) stand_by(program);
  if (program == 0) execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

Result<int> run_command(const Command& command) {
  STOKER_ASSIGN(UniqueFd null, open_file("/dev/null", O_RDWR));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe", errno);
  UniqueFd input(ends[0]), feed(ends[1]);
  if (!command.input.empty()) STOKER_TRY(write_all(feed.get(), as_bytes(command.input)));  // fits the pipe
  feed.reset();
  auto arguments = pointers(command.arguments), environment = pointers(command.environment);
  int output = command.output >= 0 ? command.output : null.get();
  // Without root there is no namespace, and what leaves the process group is not met.
  const auto pid = static_cast<pid_t>(clone_process(geteuid() == 0 ? CLONE_NEWPID : 0, nullptr, -1));
  if (pid < 0) return errno_error("fork", errno);
  if (pid == 0) become(command, arguments.data(), environment.data(), input.get(), output);
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {  // its end would go unseen
    auto failed = errno_error("holding " + command.arguments[0], errno);
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return failed;
  }
  pollfd fds[2] = {{pidfd.get(), POLLIN, 0}, {command.cancel_fd, POLLIN, 0}};
  const int64_t deadline = monotonic_ns() + static_cast<int64_t>(command.limit_s * 1e9);
  bool cancelled = false, late = false;
  while (!(fds[0].revents & POLLIN) && !cancelled && !late) {
    int64_t left_ms = (deadline - monotonic_ns()) / 1'000'000;
    late = left_ms <= 0;
    if (!late) poll(fds, 2, static_cast<int>(left_ms));
    cancelled = fds[1].revents != 0;
  }
  if (cancelled || late) kill(pid, SIGKILL);
  kill(-pid, SIGKILL);  // whatever it started; not reaped yet, its number is still its own
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (cancelled) return Error{Code::kCancelled, command.arguments[0] + ": stopped", {}};
  if (late) return Error{Code::kDeadline, command.arguments[0] + ": took too long", {}};
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string find_program(const std::string& name) {
  for (const char* folder :
       {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/", "/usr/local/sbin/", "/usr/local/bin/"})
    if (std::string path = folder + name; access(path.c_str(), X_OK) == 0) return path;
  return "";
}

}  // namespace stoker::agent
