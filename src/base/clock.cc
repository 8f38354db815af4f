// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <ctime>

namespace stoker {
namespace {

int64_t read_ns(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

class SystemClock : public Clock {
 public:
  int64_t monotonic_ns() const override { return read_ns(CLOCK_MONOTONIC); }
  int64_t wall_ms() const override { return read_ns(CLOCK_REALTIME) / 1'000'000; }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

int64_t monotonic_ns() { return read_ns(CLOCK_MONOTONIC); }
int64_t thread_cpu_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

std::string iso_time(int64_t wall_ms) {
  time_t seconds = wall_ms / 1000;
  tm utc;
  gmtime_r(&seconds, &utc);
  char text[40];
  size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text + n, sizeof text - n, ".%03dZ", static_cast<int>(wall_ms % 1000));
  return text;
}

}  // namespace stoker
