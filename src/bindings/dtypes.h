// SPDX-License-Identifier: Apache-2.0
// The pipeline room's dtypes as nanobind's. Needs no GIL.
#pragma once

#include <nanobind/ndarray.h>

#include "pipeline/producer.h"

namespace stoker::bindings {

inline nanobind::dlpack::dtype array_dtype(pipeline::DType dtype) {
  namespace nb = nanobind;
  using pipeline::DType;
  auto bits = static_cast<uint8_t>(8 * pipeline::dtype_size(dtype));
  auto of = [&](nb::dlpack::dtype_code code) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1};
  };
  switch (dtype) {
    case DType::kBool:
      return of(nb::dlpack::dtype_code::Bool);
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return of(nb::dlpack::dtype_code::Int);
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return of(nb::dlpack::dtype_code::Float);
    default:
      return of(nb::dlpack::dtype_code::UInt);
  }
}

}  // namespace stoker::bindings
