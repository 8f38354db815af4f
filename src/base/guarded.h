// SPDX-License-Identifier: Apache-2.0
// Guarded<T>: data bound to its lock. The only way to the data is through with(), which holds the lock.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

namespace stoker {

template <typename T>
class Guarded {
 public:
  template <typename... Args>
  explicit Guarded(Args&&... args) : data_(std::forward<Args>(args)...) {}

  template <typename F>
  decltype(auto) with(F&& f) {
    std::lock_guard lock(mutex_);
    return std::forward<F>(f)(data_);
  }
  // f(data) under the lock, then wakes every wait_until().
  template <typename F>
  decltype(auto) notify(F&& f) {
    struct Wake {
      std::condition_variable& changed;
      ~Wake() { changed.notify_all(); }
    } wake{changed_};
    std::lock_guard lock(mutex_);
    return std::forward<F>(f)(data_);
  }
  // Waits until ready(data) or the deadline; then f(data, ready) under the same lock.
  template <typename Deadline, typename Ready, typename F>
  decltype(auto) wait_until(const Deadline& deadline, Ready&& ready, F&& f) {
    std::unique_lock lock(mutex_);
    bool is_ready = changed_.wait_until(lock, deadline, [&] { return ready(data_); });
    return std::forward<F>(f)(data_, is_ready);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T data_;
};

}  // namespace stoker
