// SPDX-License-Identifier: Apache-2.0
// Numbers that come from outside, typed or sent: the one check that they are numbers, finite, and within what
// makes sense. An error shows what came and what would do; the caller says of which option or field. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace stoker {

struct NumberLimits {
  double least, most;
  const char* unit = "";  // for people: "seconds"; "" where there is none
  bool whole = false;
};

// As typed: all of the text is the number. What is no number, "nan" and "inf" are refused like what is out of
// the limits: "'nan' is not a number from 0 to 3600 (seconds)".
Result<double> typed_number(const NumberLimits& limits, std::string_view text);
// As sent; a text that holds a number is none.
Result<double> sent_number(const NumberLimits& limits, const Json& value);

// Whole numbers that a double cannot hold: "'x' is not a whole number from 1 to 4096".
Result<int64_t> typed_whole_number(int64_t least, int64_t most, std::string_view text);

}  // namespace stoker
