// SPDX-License-Identifier: Apache-2.0
// ArrayPlan: rows of arrays as samples, as they are; or one column of them pictures, through ops. Its part of
// docs/formats/plan.md. Values; any thread.
//
// Where the arrays lie is no part of the plan, which would else have another hash on each machine and in each
// run: it travels beside it, as the attachment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/ops.h"
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

// A column whose rows are pictures of uint8, and what is done to them: an op of a native plan may stand here
// that does not decode.
struct ArrayPictures {
  std::string column;
  bool planes = false;  // rows are [3, h, w], else [h, w, 3]
  Ops ops;
  bool operator==(const ArrayPictures&) const = default;
};

struct ArrayPlan {
  std::vector<ArrayColumn> columns;
  uint64_t items = 0;
  std::optional<ArrayPictures> pictures = {};
  bool operator==(const ArrayPlan&) const = default;
};

Result<ArrayPlan> read_array_plan(Fields& fields);
Json write_array_plan(const ArrayPlan& plan);
Status check_array_plan(const ArrayPlan& plan);
// Of a plan with pictures: their column, their size, and what the ops make of them.
Result<size_t> picture_column(const ArrayPlan& plan);
image::Size picture_size(const ArrayPlan& plan, size_t column);
Result<Known> check_picture_ops(const ArrayPlan& plan);

// Where a column's bytes lie: `items` rows from `offset` on.
struct ArrayPlace {
  std::string path;
  uint64_t offset = 0;
};
Result<std::vector<ArrayPlace>> read_array_places(std::string_view attachment);

}  // namespace stoker::pipeline
