// SPDX-License-Identifier: Apache-2.0
#include "pipeline/producer.h"

namespace stoker::pipeline {

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return "uint8";
    case DType::kInt64:
      return "int64";
    case DType::kFloat32:
      return "float32";
  }
  CHECK(false);
}

uint64_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
      return 4;
  }
  CHECK(false);
}

uint64_t RowLayout::row_bytes() const {
  uint64_t sum = 0;
  for (const Leaf& leaf : leaves) sum += leaf.row_bytes;
  return sum;
}

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  samples += other.samples;
  read_ns += other.read_ns;
  transform_ns += other.transform_ns;
  read_bytes += other.read_bytes;
  return *this;
}

}  // namespace stoker::pipeline
