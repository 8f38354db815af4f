// SPDX-License-Identifier: Apache-2.0
// One line of log on stderr: "2026-11-29T16:20:05.123Z warn agent: message". Any thread; a line is one
// write(). For what an operator should know; what the user should know is an Error.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

enum class LogLevel { kInfo, kWarn, kError };

void log_line(LogLevel level, std::string_view part, const std::string& message);

}  // namespace stoker
