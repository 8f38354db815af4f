// SPDX-License-Identifier: Apache-2.0
// The event loop of the server: one thread on which everything that decides runs, so that it needs no locks.
// post() and stop() may be called from any thread, everything else from the loop's own. Callbacks run on the
// loop. (Asio lives behind it and is included nowhere else than in this room's .cc files.)
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace stoker::http {

class Loop {
 public:
  using Callback = std::function<void()>;
  using TimerId = uint64_t;

  Loop();
  ~Loop();
  Loop(const Loop&) = delete;

  void run();  // until stop()
  void stop();
  void post(Callback callback);

  TimerId after(std::chrono::milliseconds delay, Callback callback);
  void cancel(TimerId timer);  // its callback will not run

  // Calls back each time fd is readable (or its peer is gone) until unwatch(); the caller keeps owning fd and
  // unwatches before closing it.
  void watch(int fd, Callback readable);
  void unwatch(int fd);

  void on_signals(std::vector<int> signals, std::function<void(int)> callback);

  // Runs `work` on the one background thread (for what blocks: copying files); what it returns runs on the
  // loop.
  void offload(std::function<Callback()> work);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker::http
