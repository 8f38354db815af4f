// SPDX-License-Identifier: Apache-2.0
// Executor: N threads that run tasks to completion, the lowest order first. A task is one sample: read,
// decode, transform, written into its row; no queue between ops.
//
// Shared: submit(), times() and queued() from any thread, also from inside a task. Tasks get the Scratch of
// the thread they run on. stop() (and the destructor) drops tasks that have not begun and waits for those
// that have; it may not be called from a task.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "pipeline/producer.h"

namespace stoker::pipeline {

class Executor {
 public:
  using Task = std::function<void(Scratch&)>;

  // `limit`: how many tasks may wait; submit() refuses more.
  Executor(int threads, size_t limit);
  ~Executor();

  Status start();
  // `order` is usually the sample's position. kUnavailable when `limit` tasks wait, kCancelled after stop():
  // the task will not run.
  Status submit(uint64_t order, Task task);
  void stop();

  size_t queued() const;  // waiting, not running
  void note_times(
      const Scratch& scratch);  // from a task: what its thread has done so far counts in times() at once
  StageTimes times() const;     // of all threads, up to their last finished task
  int threads() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::pipeline
