// SPDX-License-Identifier: Apache-2.0
// A job's notices as they come, told beside whatever else a command waits for (its log, say): a job that goes
// on without a machine, or does not go on, is not to be found out of at its end.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/files.h"
#include "cli/session.h"

namespace stoker::cli {

class Notices {
 public:
  using Say = std::function<void(const std::string&)>;  // called from a thread of ours

  // Tells those that `job` has not yet.
  Notices(const Session& session, Json job, Say say);
  ~Notices() { end(); }
  Notices(const Notices&) = delete;

  size_t end();  // how many have been told; none is told after it

 private:
  void watch(const std::string& socket, Json job, const Say& say);

  UniqueFd ended_;
  size_t told_;
  std::thread thread_;
};

}  // namespace stoker::cli
