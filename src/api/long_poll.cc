// SPDX-License-Identifier: Apache-2.0
#include "api/long_poll.h"

#include <memory>

namespace stoker::api {

namespace {

class Poll : public std::enable_shared_from_this<Poll> {
 public:
  Poll(http::Loop& loop, http::ExchangePtr exchange, control::Signal& changed,
       std::function<bool(bool)> answer)
      : loop_(loop), exchange_(std::move(exchange)), changed_(changed), answer_(std::move(answer)) {}

  void start(std::chrono::milliseconds timeout) {
    if (answer_(false)) return;
    wait();
    timer_ = loop_.after(timeout, [self = shared_from_this()] {
      self->timer_ = 0;
      if (!self->done_) self->answer_(true);
      self->end();
    });
    exchange_->when_gone([weak = weak_from_this()] {
      if (auto self = weak.lock()) self->end();
    });
  }

 private:
  void wait() {
    ticket_ = changed_.once([self = shared_from_this()] { self->check(); });
  }
  void check() {
    if (done_) return;
    if (answer_(false))
      end();
    else
      wait();
  }
  void end() {
    if (done_) return;
    done_ = true;
    auto self = shared_from_this();
    changed_.drop(ticket_);
    if (timer_ != 0) loop_.cancel(timer_);
  }

  http::Loop& loop_;
  http::ExchangePtr exchange_;
  control::Signal& changed_;
  std::function<bool(bool)> answer_;
  control::Signal::Ticket ticket_ = 0;
  http::Loop::TimerId timer_ = 0;
  bool done_ = false;
};

}  // namespace

void long_poll(http::Loop& loop, http::ExchangePtr exchange, control::Signal& changed,
               std::chrono::milliseconds timeout, std::function<bool(bool last)> answer) {
  std::make_shared<Poll>(loop, std::move(exchange), changed, std::move(answer))->start(timeout);
}

}  // namespace stoker::api
