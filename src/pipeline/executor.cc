// SPDX-License-Identifier: Apache-2.0
#include "pipeline/executor.h"

#include <condition_variable>
#include <mutex>
#include <queue>
#include <system_error>
#include <thread>
#include <vector>

namespace stoker::pipeline {

namespace {
thread_local size_t own_number = 0;  // of an executor's thread
}

struct Executor::State {
  struct Waiting {
    uint64_t order;
    uint64_t number;  // of submission: equal orders run in the order they came
    Task task;
    bool operator<(const Waiting& other) const {  // the queue's top is the greatest: the lowest order
      return order != other.order ? order > other.order : number > other.number;
    }
  };

  int wanted = 0;
  size_t limit = 0;
  std::vector<std::thread> threads;

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::priority_queue<Waiting> queue;
  uint64_t submitted = 0;
  bool stopping = false;
  std::vector<StageTimes> times;

  void run(size_t thread) {
    own_number = thread;
    Scratch scratch;
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stopping || !queue.empty(); });
      if (stopping) return;
      // top() is const only to guard the order, which moving the task out does not change.
      Task task = std::move(const_cast<Waiting&>(queue.top()).task);
      queue.pop();
      lock.unlock();
      task(scratch);
      task = nullptr;  // what it holds goes before the lock is taken
      lock.lock();
      times[thread] = scratch.times;
    }
  }
};

Executor::Executor(int threads, size_t limit) : state_(std::make_unique<State>()) {
  CHECK(threads > 0);
  state_->wanted = threads;
  state_->limit = limit;
}

Executor::~Executor() { stop(); }

Status Executor::start() {
  state_->times.resize(static_cast<size_t>(state_->wanted));
  try {
    for (size_t i = 0; i < static_cast<size_t>(state_->wanted); ++i)
      state_->threads.emplace_back([state = state_.get(), i] { state->run(i); });
  } catch (const std::system_error& failure) {  // the standard library's only way to say so
    stop();
    return unavailable(std::string("starting executor threads: ") + failure.what());
  }
  return ok();
}

Status Executor::submit(uint64_t order, Task task) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->stopping) return Error{Code::kCancelled, "the executor has stopped", {}};
    if (state_->queue.size() >= state_->limit)
      return unavailable("the executor's queue is full (" + std::to_string(state_->limit) + " tasks)");
    state_->queue.push({order, state_->submitted++, std::move(task)});
  }
  state_->changed.notify_one();
  return ok();
}

void Executor::stop() {
  std::priority_queue<State::Waiting> dropped;
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    dropped.swap(state_->queue);
  }
  state_->changed.notify_all();
  for (auto& thread : state_->threads) thread.join();
  state_->threads.clear();
}

size_t Executor::queued() const {
  std::lock_guard lock(state_->mutex);
  return state_->queue.size();
}

void Executor::note_times(const Scratch& scratch) {
  std::lock_guard lock(state_->mutex);
  state_->times[own_number] = scratch.times;
}

StageTimes Executor::times() const {
  std::lock_guard lock(state_->mutex);
  StageTimes sum;
  for (const StageTimes& times : state_->times) sum += times;
  return sum;
}

int Executor::threads() const { return state_->wanted; }

}  // namespace stoker::pipeline
