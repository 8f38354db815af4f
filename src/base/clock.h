// SPDX-License-Identifier: Apache-2.0
// Time through a seam: what decides by time takes it as an argument or reads a Clock, so that tests own it.
#pragma once

#include <cstdint>
#include <string>

namespace stoker {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t monotonic_ns() const = 0;
  virtual int64_t wall_ms() const = 0;  // since 1970 UTC
};

Clock& system_clock();                  // shared, any thread
int64_t monotonic_ns();                 // of the system clock
int64_t thread_cpu_ns();                // CPU time of the calling thread
std::string iso_time(int64_t wall_ms);  // 2026-11-29T16:20:05.123Z

}  // namespace stoker
