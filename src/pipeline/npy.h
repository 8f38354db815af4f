// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file (NumPy's NEP 1, versions 1 to 3). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pipeline/producer.h"

namespace stoker::pipeline {

struct NpyHeader {
  DType dtype = DType::kUint8;
  std::vector<int64_t> shape;
  uint64_t data_at = 0;     // offset of the first element
  uint64_t data_bytes = 0;  // of all elements
};

inline constexpr size_t kMaxNpyHeader = 64 << 10;

// From the first bytes of a file, at most kMaxNpyHeader of them. Only rows in C order of little-endian
// numbers are read: kData (unsupported) for Fortran order, big-endian numbers, objects, text and records;
// corrupt, truncated for what is no header. A scalar is refused, having no rows.
Result<NpyHeader> read_npy_header(ByteView begin, const std::string& name);

}  // namespace stoker::pipeline
