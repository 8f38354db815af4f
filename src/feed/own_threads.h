// SPDX-License-Identifier: Apache-2.0
// What the threads of this process have had of the cores, by /proc/self/task/*/schedstat: time that they ran,
// and time that they were ready to run and did not, because other threads had the cores or a quota was used
// up. Not the pressure that the kernel tells of a machine or a control group (PSI): there, spare workers that
// wait count as well. Confined.
#pragma once

#include <cstdint>
#include <map>

#include "base/result.h"

namespace stoker::feed {

class OwnThreads {
 public:
  struct Times {
    int64_t run_ns = 0, delay_ns = 0;
  };
  // Of all threads since the first call; what a thread did after the last call before its end is missed.
  // kUnsupported: this kernel does not count it.
  Result<Times> read();

 private:
  std::map<int, Times> last_;  // by thread
  Times sum_;
  bool is_first_ = true;
};

}  // namespace stoker::feed
