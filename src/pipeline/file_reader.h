// SPDX-License-Identifier: Apache-2.0
// Reads a sample's file whole into a buffer that is used again. Any thread, each with its own buffer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

inline constexpr uint64_t kMaxSampleFileBytes = uint64_t{1} << 30;

// kUnavailable whatever the reason that it could not be read; kData (too_large, unreadable) for a file over
// the limit or what is no regular file (a FIFO is not waited for). The view lies in `buffer`.
Result<ByteView> read_sample_file(const std::string& path, std::vector<uint8_t>& buffer);

// Asks the kernel to read it ahead; says nothing of failures, which the read will meet.
void will_read_sample_file(const std::string& path);

}  // namespace stoker::pipeline
