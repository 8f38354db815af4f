// SPDX-License-Identifier: Apache-2.0
// How long the last answers took, and what follows: what is usual, and how long a process may be at one
// before it counts as hung. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace stoker::feed {

class AnswerTimes {
 public:
  void note(int64_t took_ns);
  int64_t usual_ns() const;  // the 95th percentile; a second while nothing is known
  // Of the attempt after so many in vain. `hurried_ns`: at most this for the first, since it has been waited
  // for in vain; 0: no.
  int64_t patience_ns(int attempts, int64_t hurried_ns) const;
  // The same where a first attempt is always given `base_ns`.
  static int64_t patience_ns(int64_t base_ns, int attempts, int64_t hurried_ns);
  // Long enough of that for people to be told.
  static bool is_late(int64_t took_ns, int64_t patience_ns);

 private:
  std::deque<int64_t> recent_ns_;
  std::vector<int64_t> sorted_ns_;  // the same
};

}  // namespace stoker::feed
