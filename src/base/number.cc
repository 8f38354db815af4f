// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "base/text.h"

namespace stoker {
namespace {

constexpr size_t kShown = 100;  // of what came, bytes

std::string shown(std::string_view text) {
  return "'" + shown_text(cut_text(text, kShown)) + (text.size() > kShown ? "…'" : "'");
}

std::string plain(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

Result<double> checked(const NumberLimits& limits, double value, const std::string& came) {
  // Written so that a NaN, which compares with nothing, fails.
  bool within =
      value >= limits.least && value <= limits.most && (!limits.whole || value == std::floor(value));
  if (within) return value;
  std::string unit = *limits.unit ? std::string(" (") + limits.unit + ")" : "";
  return invalid(came + " is not a " + (limits.whole ? "whole number" : "number") + " from " +
                 plain(limits.least) + " to " + plain(limits.most) + unit);
}

// All of the text as a number; nothing where it is none.
template <typename Number>
std::optional<Number> parsed(std::string_view text) {
  Number value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

Result<double> typed_number(const NumberLimits& limits, std::string_view text) {
  return checked(limits, parsed<double>(text).value_or(std::nan("")), shown(text));
}

Result<double> sent_number(const NumberLimits& limits, const Json& value) {
  return checked(limits, value.as_double(std::nan("")), shown(value.dump()));
}

Result<int64_t> typed_whole_number(int64_t least, int64_t most, std::string_view text) {
  auto value = parsed<int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  return invalid(shown(text) + " is not a whole number from " + std::to_string(least) + " to " +
                 std::to_string(most));
}

}  // namespace stoker
