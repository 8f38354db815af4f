// SPDX-License-Identifier: Apache-2.0
// Accepts TCP connections on a loop. When the process has no descriptor left, it pauses instead of being
// woken for ever by a connection that it cannot take; who waits is taken later. Confined to the loop's
// thread; the loop outlives it.
#pragma once

#include <functional>
#include <string>

#include "wire/loop.h"

namespace stoker::wire {

class Acceptor {
 public:
  using Taken = std::function<void(UniqueFd socket)>;
  // `who` names the program part in the log.
  Acceptor(Loop& loop, std::string who, Taken taken);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;

  Status start(UniqueFd listener);

 private:
  void accept_all();
  void pause(const std::string& reason);

  Loop& loop_;
  std::string who_;
  Taken taken_;
  UniqueFd listener_;
  Loop::Timer resume_{};
  bool paused_ = false;
};

}  // namespace stoker::wire
