// SPDX-License-Identifier: Apache-2.0
#include "wire/child.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

#include "wire/tcp.h"

namespace stoker::wire {
namespace {
constexpr size_t kTailBytes = 4096;
}  // namespace

Result<std::unique_ptr<Child>> Child::start(Loop& loop, const ChildCommand& command,
                                            std::function<void(const std::string&)> on_exit) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return errno_error("making a pipe", errno);
  UniqueFd out_read(pipe_fds[0]), out_write(pipe_fds[1]);
  STOKER_TRY(set_nonblocking(out_read.get()));
  STOKER_ASSIGN(Process process, Process::start(command, out_write.get()));
  std::unique_ptr<Child> child(new Child(loop, std::move(process)));
  child->stderr_ = std::move(out_read);
  child->on_exit_ = std::move(on_exit);
  Child* raw = child.get();
  STOKER_TRY(loop.watch(child->stderr_.get(), EPOLLIN, [raw](uint32_t) { raw->drain_stderr(); }));
  STOKER_TRY(loop.watch(child->process_.pidfd(), EPOLLIN, [raw](uint32_t) {
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
  return ended([](Process& process) { return process.reap(); });
}

std::string Child::kill_and_reap() {
  return ended([](Process& process) { return process.kill_and_reap(); });
}

std::string Child::ended(std::string (*end)(Process&)) {
  if (!process_.running()) return "has ended";
  if (stderr_) drain_stderr();
  loop_.forget(process_.pidfd());
  std::string how = end(process_);
  if (stderr_) drain_stderr();
  return how;
}

}  // namespace stoker::wire
