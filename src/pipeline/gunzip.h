// SPDX-License-Identifier: Apache-2.0
// gzip files unpacked once, into a file of the cache that every process on this machine finds again: what is
// read at random offsets must lie there plain. docs/formats/container-index.md says how it is named. Any
// thread; processes that unpack the same file at once each write their own and the last one stays.
#pragma once

#include <functional>
#include <string>

#include "pipeline/random_access.h"

namespace stoker::pipeline {

inline constexpr uint64_t kMaxUnpackedBytes = uint64_t{64} << 30;

// The whole of a gzip stream (several members, as gzip -c >> makes, are one), in pieces as they come.
// kData (truncated, corrupt, too_large), with the offset in the packed bytes.
Status gunzip(const RandomAccess& packed, const std::string& name, uint64_t most,
              const std::function<Status(ByteView)>& sink);

// The path of the plain file.
Result<std::string> unpacked_file(const std::string& path, const FileStamp& stamp,
                                  const RandomAccess& packed);

}  // namespace stoker::pipeline
