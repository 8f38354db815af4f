// SPDX-License-Identifier: Apache-2.0
#include "agent/sandbox/sandbox.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/sandbox/shim.h"

namespace stoker::agent {
namespace {

constexpr time_t kBuildLimit_s = 120;  // a mount of a dead file server would hold the shim for ever
constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET;

// 0 at the end of the stream.
ssize_t receive(int control, ShimMessage& message, int flags) {
  ssize_t count;
  while ((count = recv(control, &message, sizeof message, flags)) < 0 && errno == EINTR) {
  }
  return count;
}

Status tell(int control, ShimMessage::Kind kind, int value) {
  ShimMessage message{kind, value, {}};
  if (send(control, &message, sizeof message, MSG_NOSIGNAL) < 0) return errno_error("tell the shim", errno);
  return ok();
}

bool has_message(int control) {
  pollfd poll_fd{control, POLLIN, 0};
  return poll(&poll_fd, 1, 0) > 0;
}

// kStarted or kNotStarted.
Result<ShimMessage> wait_until_started(int control) {
  ShimMessage message;
  ssize_t count = receive(control, message, 0);
  if (count < 0 && errno == EAGAIN)
    return Error{
        Code::kDeadline, "the instance was not built within 120 s; does an input folder answer?", {}};
  if (count <= 0) return unavailable("the shim ended before the script started");
  if (message.kind != ShimMessage::Kind::kFailed) return message;
  return internal(std::string("building the instance: ") + message.where + ": " + strerror(message.value));
}

// Why the user's process could not be executed.
std::string not_started(const ProcessPlan& user, const ShimMessage& answer) {
  const std::string& name = user.arguments.front();
  if (name.find('/') != std::string::npos || answer.value != ENOENT)
    return errno_error("execute " + name, answer.value).message;
  std::string folders;
  for (const std::string& candidate : user.candidates)
    folders += (folders.empty() ? "" : ", ") + candidate.substr(0, candidate.rfind('/'));
  return "there is no program '" + name + "' in the code folder nor in PATH (" + folders +
         "); give its absolute path, or another PATH (--env PATH=…)";
}

}  // namespace

Result<Sandbox> Sandbox::launch(const SandboxPlan& plan, const std::function<Status(pid_t)>& attach) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_error("socketpair", errno);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  timeval limit{kBuildLimit_s, 0};
  if (setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
    return errno_error("limit the wait for the shim", errno);
  ShimPlan shim(plan);
  int pidfd = -1;
  int64_t pid = clone_process(kNamespaces, &pidfd, plan.shim_group);
  if (pid < 0) return errno_error("make namespaces", errno);
  if (pid == 0) run_shim(shim, theirs.get());
  Sandbox sandbox(static_cast<pid_t>(pid), UniqueFd(pidfd), std::move(ours));
  theirs.reset();
  auto attached = attach(sandbox.pid_);
  // A shim that has failed meanwhile knows the cause better than whoever misses it.
  auto told = attached.ok() ? tell(sandbox.control_.get(), ShimMessage::Kind::kGo, 0) : ok();
  if (!attached.ok() && !has_message(sandbox.control_.get())) return std::move(attached).error();
  STOKER_ASSIGN(ShimMessage answer, wait_until_started(sandbox.control_.get()));
  STOKER_TRY(std::move(told));
  if (answer.kind == ShimMessage::Kind::kNotStarted) {
    sandbox.exec_problem_ = not_started(plan.user, answer);
    sandbox.early_end_ = WaitStatus{(answer.value == ENOENT ? 127 : 126) << 8};
  }
  return sandbox;
}

Sandbox::~Sandbox() { kill(); }

Result<std::optional<WaitStatus>> Sandbox::next() {
  if (early_end_) return early_end_;
  ShimMessage message;
  ssize_t count = receive(control_.get(), message, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<WaitStatus>();
  if (count <= 0) return unavailable("the shim was killed");
  WaitStatus status{message.value};
  if (message.kind == ShimMessage::Kind::kEnded) return std::optional(status);
  const bool again = message.kind == ShimMessage::Kind::kRestarted;
  notices_.push_back(std::string(message.where) + " ended with code " + std::to_string(status.code()) +
                     (again ? " and was started again" : " once too often"));
  return std::optional<WaitStatus>();
}

Status Sandbox::signal_user(int signal) {
  STOKER_TRY(tell(control_.get(), ShimMessage::Kind::kSignal, signal));
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGCONT, nullptr, 0);  // a shim that is paused hears nothing
  return ok();
}

void Sandbox::kill() {
  if (!pidfd_) return;
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  // PID 1 of a namespace ends only after every process in it has: this wait is for all of them.
  siginfo_t info{};
  while (waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 && errno == EINTR) {
  }
  pidfd_.reset();
}

}  // namespace stoker::agent
