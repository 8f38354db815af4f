// SPDX-License-Identifier: Apache-2.0
#include "wire/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace stoker::wire {
namespace {
epoll_event event_of(int fd, uint32_t number, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = uint64_t{number} << 32 | static_cast<uint32_t>(fd);
  return event;
}
}  // namespace

Result<std::unique_ptr<Loop>> Loop::make() {
  std::unique_ptr<Loop> loop(new Loop);
  loop->epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!loop->epoll_) return errno_error("making an epoll", errno);
  loop->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_) return errno_error("making an eventfd", errno);
  int wake = loop->wake_.get();
  STOKER_TRY(loop->watch(wake, EPOLLIN, [wake](uint32_t) {
    uint64_t count;
    [[maybe_unused]] ssize_t n = ::read(wake, &count, sizeof count);
  }));
  return loop;
}

Loop::~Loop() = default;

Status Loop::watch(int fd, uint32_t events, Handler handler) {
  uint32_t number = next_number_++;
  epoll_event event = event_of(fd, number, events);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return errno_error("watching a descriptor", errno);
  watches_[fd] = {number, std::make_shared<Handler>(std::move(handler))};
  numbers_.with([&](auto& numbers) { numbers[fd] = number; });
  return ok();
}

void Loop::change(int fd, uint32_t events) {
  numbers_.with([&](auto& numbers) {
    auto found = numbers.find(fd);
    if (found == numbers.end()) return;
    epoll_event event = event_of(fd, found->second, events);
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  });
}

void Loop::forget(int fd) {
  numbers_.with([&](auto& numbers) {
    if (numbers.erase(fd)) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  });
  watches_.erase(fd);
}

Loop::Timer Loop::at(int64_t monotonic_ns, Work work) {
  Timer timer{monotonic_ns, next_timer_++};
  timers_.emplace(timer, std::move(work));
  return timer;
}

void Loop::cancel(Timer timer) { timers_.erase(timer); }

void Loop::post(Work work) {
  bool first = posted_.with([&](auto& posted) {
    posted.push_back(std::move(work));
    return posted.size() == 1;
  });
  uint64_t one = 1;
  if (first) {
    [[maybe_unused]] ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }
}

void Loop::run_posted() {
  std::vector<Work> all = posted_.with([](auto& posted) { return std::exchange(posted, {}); });
  for (Work& work : all) work();
}

void Loop::wait_and_handle() {
  int timeout_ms = -1;
  if (!timers_.empty()) {
    int64_t left = timers_.begin()->first.first - monotonic_ns();
    timeout_ms = static_cast<int>(std::clamp<int64_t>((left + 999'999) / 1'000'000, 0, 3'600'000));
  }
  epoll_event events[64];
  int n = epoll_wait(epoll_.get(), events, 64, timeout_ms);
  for (int i = 0; i < n; ++i) {
    int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
    auto found = watches_.find(fd);
    // A handler before this one may have closed the descriptor, and its number may already be somebody
    // else's.
    if (found == watches_.end() || found->second.number != events[i].data.u64 >> 32) continue;
    std::shared_ptr<Handler> handler = found->second.handler;
    (*handler)(events[i].events);
  }
  int64_t now = monotonic_ns();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
  }
}

void Loop::run() {
  while (!stopping_.load()) {
    run_posted();
    if (stopping_.load()) break;
    wait_and_handle();
  }
  run_posted();
}

void Loop::stop() {
  stopping_ = true;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace stoker::wire
