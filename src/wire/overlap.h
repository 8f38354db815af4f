// SPDX-License-Identifier: Apache-2.0
// For how long at least one of several things was so, where they may be so at once: two connections that wait
// in the same second have waited one second. Confined.
#pragma once

#include <cstdint>

namespace stoker::wire {

class Overlap {
 public:
  void begin(int64_t now_ns) {
    if (open_++ == 0) since_ns_ = now_ns;
  }
  void end(int64_t now_ns) {
    if (--open_ == 0) total_ns_ += now_ns - since_ns_;
  }
  int64_t total_ns(int64_t now_ns) const { return total_ns_ + (open_ > 0 ? now_ns - since_ns_ : 0); }

 private:
  int64_t open_ = 0, since_ns_ = 0, total_ns_ = 0;
};

}  // namespace stoker::wire
