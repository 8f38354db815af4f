// SPDX-License-Identifier: Apache-2.0
// "Tell me once when this changes": what long polls and followed logs wait on. Confined to the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace stoker::control {

class Signal {
 public:
  using Ticket = uint64_t;
  Ticket once(std::function<void()> callback) {
    waiting_[next_] = std::move(callback);
    return next_++;
  }
  void drop(Ticket ticket) { waiting_.erase(ticket); }
  // Calls and forgets all who wait now; a callback may wait again.
  void fire() {
    auto now = std::move(waiting_);
    waiting_.clear();
    for (auto& [ticket, callback] : now) callback();
  }

 private:
  std::map<Ticket, std::function<void()>> waiting_;
  Ticket next_ = 1;
};

}  // namespace stoker::control
