// SPDX-License-Identifier: Apache-2.0
// Loop: one thread that waits for descriptors, timers and work posted by others (epoll). Sleeps when there is
// nothing to do. Confined to the thread in run(), apart from post(), change() and stop().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/files.h"
#include "base/guarded.h"
#include "base/result.h"

namespace stoker::wire {

class Loop {
 public:
  using Handler = std::function<void(uint32_t events)>;
  using Work = std::function<void()>;
  using Timer = std::pair<int64_t, uint64_t>;  // when, number

  static Result<std::unique_ptr<Loop>> make();
  ~Loop();

  // EPOLLIN and so on, level-triggered. The handler may forget() any descriptor, its own too. forget() before
  // close().
  Status watch(int fd, uint32_t events, Handler handler);
  void change(int fd, uint32_t events);  // of a watched descriptor that nobody forgets meanwhile; any thread
  void forget(int fd);

  Timer at(int64_t monotonic_ns, Work work);
  void cancel(Timer timer);  // also one that has run

  void post(Work work);  // any thread; runs in the loop's, in order
  void run();            // until stop()
  void stop();           // any thread

 private:
  struct Watch {
    uint32_t number;
    std::shared_ptr<Handler> handler;  // shared with the call in progress, which may forget it
  };
  Loop() = default;
  void wait_and_handle();
  void run_posted();

  UniqueFd epoll_;
  UniqueFd wake_;
  std::unordered_map<int, Watch> watches_;
  std::atomic<uint32_t> next_number_ = 1;
  Guarded<std::unordered_map<int, uint32_t>> numbers_;  // for change(), which comes from other threads
  std::map<Timer, Work> timers_;
  uint64_t next_timer_ = 0;
  Guarded<std::vector<Work>> posted_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace stoker::wire
