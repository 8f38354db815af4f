// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"

namespace stoker {
namespace {
constexpr const char* kNames[] = {"info", "warn", "error"};
}  // namespace

void log_line(LogLevel level, std::string_view part, const std::string& message) {
  std::string line = iso_time(system_clock().wall_ms());
  line.append(" ").append(kNames[static_cast<int>(level)]).append(" ").append(part).append(": ");
  line.append(message).append("\n");
  // A log that cannot be written has nobody left to tell.
  if (auto written = write_all(STDERR_FILENO, as_bytes(line)); !written.ok()) return;
}

}  // namespace stoker
