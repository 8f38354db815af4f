// SPDX-License-Identifier: Apache-2.0
// Worker: makes the samples that clients ask for and keeps nothing: many plans, many clients, the lowest
// batch first. It serves TCP clients that prove the job's token, or one parent on an inherited socketpair.
//
// Confined to the thread in run(), apart from drain() and stop(), which any thread or signal handler's thread
// may call.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/picture_cache.h"
#include "pipeline/producer.h"

namespace stoker::feed {

struct WorkerOptions {
  std::string listen;                    // HOST:PORT, port 0: any; "" when child_fd is given
  int child_fd = -1;                     // serve the parent on this socket, and end with it
  std::vector<std::string> dispatchers;  // to register with, one per group that is fed; may be empty
  std::string advertise;                 // HOST:PORT that clients shall use; "": the one listened on
  std::string group;                     // of the job, for the dispatcher's figures
  std::string token;
  int threads = 0;  // 0: the cores that quota and affinity allow, rounded up
  // Interpreter (and options) for Python plans and for pictures that only Pillow reads; empty: they are
  // refused.
  std::vector<std::string> python;
  uint64_t budget_bytes = uint64_t{512} << 20;  // of rows made and not yet sent
  std::string telemetry_folder;                 // lines go to feed-PID.jsonl there; "": none
  pipeline::PictureCacheOptions picture_cache;  // of a child: its parent's
  // How native plans are opened; tests give their own.
  std::function<Result<std::unique_ptr<pipeline::Producer>>(const std::string& json, ByteView attachment)>
      open_native;
};

class Pillow;
class WorkerCore;
class Worker {
 public:
  static Result<std::unique_ptr<Worker>> open(WorkerOptions options);
  ~Worker();
  std::string address() const;  // where it listens
  void run();                   // until drained, stopped, or the parent is gone
  void drain();                 // tells clients, finishes what was asked, at most 5 s, and returns from run()
  void stop();                  // returns from run() at once

 private:
  explicit Worker(std::unique_ptr<WorkerCore> core);
  std::unique_ptr<WorkerCore> core_;
};

}  // namespace stoker::feed
