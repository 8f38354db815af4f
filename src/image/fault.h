// SPDX-License-Identifier: Apache-2.0
// Errors about the bytes of a picture. The kinds are those of base/result.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace stoker::image {

inline Error fault(const char* kind, std::string message, int64_t offset = -1) {
  Code code = std::string_view(kind) == "unsupported" ? Code::kUnsupported : Code::kData;
  return {code, std::move(message), DataFault{kind, "", offset}};
}

inline Error no_memory(size_t bytes) {
  return {Code::kNoMemory, "no memory for " + std::to_string(bytes) + " bytes of picture", {}};
}

}  // namespace stoker::image
