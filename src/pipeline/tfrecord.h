// SPDX-License-Identifier: Apache-2.0
// TFRecord files: frames of length (u64), its checksum, data, its checksum. What is in a record is for
// pipeline/example.h. Pure but for reading.
#pragma once

#include <functional>
#include <string>

#include "pipeline/random_access.h"

namespace stoker::pipeline {

inline constexpr uint64_t kRecordOverhead = 16;  // bytes of a frame that are not data

struct RecordFrame {
  uint64_t offset = 0;  // of the frame
  uint64_t length = 0;  // of the frame: data and kRecordOverhead
};

// Every frame in turn, by its length alone, whose checksum is verified; the data is not read. Errors are
// kData with the frame's offset: truncated, corrupt_length.
Status for_each_record(const RandomAccess& bytes, const std::string& name,
                       const std::function<void(RecordFrame)>& found);

// The data of a whole frame, both checksums verified: corrupt_length, corrupt_data. `offset` is for the
// error.
Result<ByteView> record_data(ByteView frame, const std::string& name, uint64_t offset);

}  // namespace stoker::pipeline
