// SPDX-License-Identifier: Apache-2.0
#include "wire/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wire/tcp.h"

namespace stoker::wire {
namespace {
constexpr size_t kTailBytes = 4096;

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

int64_t to_ns(const timeval& time) { return time.tv_sec * 1'000'000'000LL + time.tv_usec * 1000LL; }
}  // namespace

Result<std::unique_ptr<Child>> Child::start(Loop& loop, const ChildCommand& command,
                                            std::function<void(const std::string&)> on_exit) {
  if (command.argv.empty()) return invalid("a child without a command");
  STOKER_ASSIGN(SocketPair pair, make_socketpair());
  int pipe_fds[2], problem_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error("making a pipe", errno);
  UniqueFd out_read(pipe_fds[0]), out_write(pipe_fds[1]);
  if (pipe2(problem_fds, O_CLOEXEC) != 0) return errno_error("making a pipe", errno);
  UniqueFd problem_read(problem_fds[0]), problem_write(problem_fds[1]);
  STOKER_ASSIGN(UniqueFd nothing, open_file("/dev/null", O_RDONLY));
  STOKER_TRY(set_nonblocking(out_read.get()));

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
    dup2(out_write.get(), 2);
    // 3 and 4 may be in use by what we still need: go through numbers above.
    int problem = fcntl(problem_write.get(), F_DUPFD_CLOEXEC, 10);
    int socket = fcntl(pair.theirs.get(), F_DUPFD, 10);
    dup2(socket, kSocketNumber);
    syscall(SYS_close_range, kSocketNumber + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (command.nice != 0) setpriority(PRIO_PROCESS, 0, command.nice);
    execve(program.c_str(), argv_pointers.data(), environment_pointers.data());
    int code = errno;
    [[maybe_unused]] ssize_t n = ::write(problem, &code, sizeof code);
    _exit(127);
  }
  std::unique_ptr<Child> child(new Child(loop));
  child->pid_ = pid;
  child->pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  int pidfd_problem = errno;
  problem_write.reset();
  int code = 0;
  ssize_t n;
  while ((n = ::read(problem_read.get(), &code, sizeof code)) < 0 && errno == EINTR) continue;
  if (n == sizeof code || !child->pidfd_) {
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    child->pidfd_.reset();
    return errno_error("starting " + program, n == sizeof code ? code : pidfd_problem);
  }
  child->socket_ = std::move(pair.ours);
  child->stderr_ = std::move(out_read);
  child->on_exit_ = std::move(on_exit);
  Child* raw = child.get();
  STOKER_TRY(loop.watch(child->stderr_.get(), EPOLLIN, [raw](uint32_t) { raw->drain_stderr(); }));
  STOKER_TRY(loop.watch(child->pidfd_.get(), EPOLLIN, [raw](uint32_t) {
    std::string how = raw->reap();
    auto tell = raw->on_exit_;  // the callee may destroy us
    if (tell) tell(how);
  }));
  return child;
}

Child::~Child() {
  kill_and_reap();
  if (stderr_) loop_.forget(stderr_.get());
}

void Child::drain_stderr() {
  char buffer[4096];
  while (true) {
    ssize_t n = ::read(stderr_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    if (n == 0) {
      loop_.forget(stderr_.get());
      stderr_.reset();
      return;
    }
    // Whether our own stderr takes it is not the child's concern.
    [[maybe_unused]] auto passed =
        write_all(STDERR_FILENO, {reinterpret_cast<uint8_t*>(buffer), static_cast<size_t>(n)});
    tail_.append(buffer, static_cast<size_t>(n));
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

std::string Child::last_lines() const {
  std::string lines = tail_;
  lines.erase(lines.find_last_not_of(" \n") + 1);
  size_t at = lines.size();
  for (int i = 0; i < 8 && at != std::string::npos && at > 0; ++i) at = lines.rfind('\n', at - 1);
  return at == std::string::npos ? lines : lines.substr(at == 0 ? 0 : at + 1);
}

std::string Child::reap() {
  if (!pidfd_) return "has ended";
  if (stderr_) drain_stderr();
  loop_.forget(pidfd_.get());
  int status = 0;
  rusage usage{};
  int got;
  while ((got = wait4(pid_, &status, 0, &usage)) < 0 && errno == EINTR) continue;
  pidfd_.reset();
  final_cpu_ns_ = to_ns(usage.ru_utime) + to_ns(usage.ru_stime);
  if (stderr_) drain_stderr();
  if (got < 0) return "has ended";  // somebody in this process reaped it for us
  if (WIFSIGNALED(status))
    return "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

std::string Child::kill_and_reap() {
  if (!pidfd_) return "has ended";
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  return reap();
}

int64_t Child::cpu_ns() const {
  if (!pidfd_) return final_cpu_ns_;
  auto text = read_text("/proc/" + std::to_string(pid_) + "/stat");
  if (!text.ok()) return 0;
  size_t close = text->rfind(')');  // the name may hold anything
  if (close == std::string::npos) return 0;
  unsigned long user = 0, system = 0;
  if (std::sscanf(text->c_str() + close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                  &system) != 2)
    return 0;
  return static_cast<int64_t>(user + system) * (1'000'000'000LL / sysconf(_SC_CLK_TCK));
}

}  // namespace stoker::wire
