// SPDX-License-Identifier: Apache-2.0
#include "wire/acceptor.h"

#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/tcp.h"

namespace stoker::wire {

namespace {
constexpr int64_t kPauseNs = 200'000'000;
}  // namespace

Acceptor::Acceptor(Loop& loop, std::string who, Taken taken)
    : loop_(loop), who_(std::move(who)), taken_(std::move(taken)) {}

Acceptor::~Acceptor() {
  if (paused_) loop_.cancel(resume_);
  if (listener_) loop_.forget(listener_.get());
}

Status Acceptor::start(UniqueFd listener) {
  listener_ = std::move(listener);
  return loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_all(); });
}

void Acceptor::accept_all() {
  while (true) {
    auto accepted = accept_tcp(listener_.get());
    if (!accepted.ok()) return pause(accepted.error().message);
    if (!*accepted) return;
    taken_(std::move(*accepted));
  }
}

void Acceptor::pause(const std::string& reason) {
  log_line(LogLevel::kWarn, who_, reason + "; who waits is taken when that is over");
  loop_.change(listener_.get(), 0);
  paused_ = true;
  resume_ = loop_.at(monotonic_ns() + kPauseNs, [this] {
    paused_ = false;
    loop_.change(listener_.get(), EPOLLIN);
  });
}

}  // namespace stoker::wire
