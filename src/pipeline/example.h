// SPDX-License-Identifier: Apache-2.0
// tf.train.Example, as far as a loader needs it: a map from names to lists of bytes, floats or integers. A
// reader of our own for the four messages of it (protobuf itself may not be linked into the extension). Pure;
// the views lie in the bytes that were read.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

struct Feature {
  std::string_view name;
  // Which of the three lists it is; none (monostate) for a feature of no kind.
  std::variant<std::monostate, std::vector<ByteView>, std::vector<float>, std::vector<int64_t>> values;
};

// All of them, at most 4096, in the order of the bytes; of a name that comes twice the last one counts, and
// stands alone. kData (corrupt), with the offset in `bytes`, for what is no Example.
Result<std::vector<Feature>> parse_example(ByteView bytes);

// The one of that name, without taking the others apart; nothing where there is none.
Result<std::optional<Feature>> find_feature(ByteView bytes, std::string_view name);

}  // namespace stoker::pipeline
