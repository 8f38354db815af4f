// SPDX-License-Identifier: Apache-2.0
#include "wire/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wire/tcp.h"

namespace stoker::wire {
namespace {

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t at = 0; at <= rest.size();) {
    size_t end = std::min(rest.find(':', at), rest.size());
    std::string full = rest.substr(at, end - at) + "/" + name;
    if (access(full.c_str(), X_OK) == 0) return full;
    at = end + 1;
  }
  return name;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& over) {
  std::vector<std::string> all = over;
  for (char** one = environ; *one; ++one) {
    std::string_view entry = *one;
    std::string_view name = entry.substr(0, entry.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : over) replaced |= other.compare(0, name.size(), name) == 0;
    if (!replaced) all.emplace_back(entry);
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& one : strings) out.push_back(one.data());
  out.push_back(nullptr);
  return out;
}

// Async-signal-safe. What the kernel does not grant is no reason not to run.
void be_idle() {
  sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);
  setpriority(PRIO_PROCESS, 0, 19);
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  [[maybe_unused]] ssize_t n = ::write(score, "1000", 4);
  ::close(score);
}

int64_t to_ns(const timeval& time) { return time.tv_sec * 1'000'000'000LL + time.tv_usec * 1000LL; }
}  // namespace

Result<Process> Process::start(const ChildCommand& command, int stderr_fd) {
  if (command.argv.empty()) return invalid("a child without a command");
  STOKER_ASSIGN(SocketPair pair, make_socketpair());
  int problem_fds[2];
  if (pipe2(problem_fds, O_CLOEXEC) != 0) return errno_error("making a pipe", errno);
  UniqueFd problem_read(problem_fds[0]), problem_write(problem_fds[1]);
  STOKER_ASSIGN(UniqueFd nothing, open_file("/dev/null", O_RDONLY));

  std::vector<std::string> argv = command.argv;
  argv.push_back("--fd");
  argv.push_back(std::to_string(kSocketNumber));
  std::vector<std::string> environment = merged_environment(command.environment);
  std::string program = find_program(argv[0]);
  std::vector<char*> argv_pointers = pointers(argv), environment_pointers = pointers(environment);
  int parent = getpid();

  int pid = fork();
  if (pid < 0) return errno_error("starting " + argv[0], errno);
  if (pid == 0) {
    // Only async-signal-safe calls from here: other threads of the parent may have held any lock.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_IGN);  // Ctrl-C is for the trainer, which then closes us
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(nothing.get(), 0);
    if (stderr_fd >= 0) dup2(stderr_fd, 2);
    // 3 and 4 may be in use by what we still need: go through numbers above.
    int problem = fcntl(problem_write.get(), F_DUPFD_CLOEXEC, 10);
    int socket = fcntl(pair.theirs.get(), F_DUPFD, 10);
    dup2(socket, kSocketNumber);
    syscall(SYS_close_range, kSocketNumber + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (command.nice != 0) setpriority(PRIO_PROCESS, 0, command.nice);
    if (command.idle) be_idle();
    execve(program.c_str(), argv_pointers.data(), environment_pointers.data());
    int code = errno;
    [[maybe_unused]] ssize_t n = ::write(problem, &code, sizeof code);
    _exit(127);
  }
  Process process;
  process.pid_ = pid;
  process.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  int pidfd_problem = errno;
  problem_write.reset();
  int code = 0;
  ssize_t n;
  while ((n = ::read(problem_read.get(), &code, sizeof code)) < 0 && errno == EINTR) continue;
  if (n == sizeof code || !process.pidfd_) {
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    process.pidfd_.reset();
    return errno_error("starting " + program, n == sizeof code ? code : pidfd_problem);
  }
  process.socket_ = std::move(pair.ours);
  return process;
}

std::string Process::reap() {
  if (!pidfd_) return "has ended";
  int status = 0;
  rusage usage{};
  int got;
  while ((got = wait4(pid_, &status, 0, &usage)) < 0 && errno == EINTR) continue;
  pidfd_.reset();
  final_cpu_ns_ = to_ns(usage.ru_utime) + to_ns(usage.ru_stime);
  if (got < 0) return "has ended";  // somebody in this process reaped it for us
  if (WIFSIGNALED(status))
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

std::string Process::kill_and_reap() {
  if (!pidfd_) return "has ended";
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  return reap();
}

std::string Process::reap_or_kill(int wait_ms) {
  pollfd end{pidfd_.get(), POLLIN, 0};
  if (pidfd_ && poll(&end, 1, wait_ms) == 1) return reap();
  return kill_and_reap();
}

void Process::abandon() {
  pidfd_.reset();
  socket_.reset();
}

int64_t Process::cpu_ns() const {
  if (!pidfd_) return final_cpu_ns_;
  // In ns, where /proc counts ticks of 10 ms.
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return used.tv_sec * 1'000'000'000LL + used.tv_nsec;
}

}  // namespace stoker::wire
