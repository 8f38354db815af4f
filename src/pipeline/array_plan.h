// SPDX-License-Identifier: Apache-2.0
// ArrayPlan: rows of arrays as samples, as they are. Its part of docs/formats/plan.md. Values; any thread.
//
// Where the arrays lie is no part of the plan, which would else have another hash on each machine and in each
// run: it travels beside it, as the attachment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/plan_fields.h"
#include "pipeline/producer.h"

namespace stoker::pipeline {

struct ArrayColumn {
  std::string name;
  DType dtype = DType::kUint8;
  std::vector<int64_t> shape;  // of one row
  std::string content;         // what stands for its content: a hash, or a file's name and size
  bool operator==(const ArrayColumn&) const = default;
  uint64_t row_bytes() const;
};

struct ArrayPlan {
  std::vector<ArrayColumn> columns;
  uint64_t items = 0;
  bool operator==(const ArrayPlan&) const = default;
};

Result<ArrayPlan> read_array_plan(Fields& fields);
Json write_array_plan(const ArrayPlan& plan);
Status check_array_plan(const ArrayPlan& plan);

// Where a column's bytes lie: `items` rows from `offset` on.
struct ArrayPlace {
  std::string path;
  uint64_t offset = 0;
};
Result<std::vector<ArrayPlace>> read_array_places(std::string_view attachment);

}  // namespace stoker::pipeline
