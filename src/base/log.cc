// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/files.h"

namespace stoker {
namespace {
std::atomic<LogLevel> least_level{LogLevel::kInfo};
constexpr const char* kNames[] = {"debug", "info", "warn", "error"};
}  // namespace

void set_log_level(LogLevel least) { least_level = least; }

void log_line(LogLevel level, std::string_view part, const std::string& message) {
  if (level < least_level.load(std::memory_order_relaxed)) return;
  std::string line = iso_time(system_clock().wall_ms());
  line.append(" ").append(kNames[static_cast<int>(level)]).append(" ").append(part).append(": ");
  line.append(message).append("\n");
  // A log that cannot be written has nobody left to tell.
  if (auto written = write_all(STDERR_FILENO, as_bytes(line)); !written.ok()) return;
}

}  // namespace stoker
