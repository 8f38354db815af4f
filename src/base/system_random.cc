// SPDX-License-Identifier: Apache-2.0
#include "base/system_random.h"

#include <sys/random.h>

#include "base/result.h"

namespace stoker {

// So few are never given in part.
void fill_random(std::span<uint8_t> bytes) {
  CHECK(bytes.size() <= 256 &&
        ::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}

uint64_t random_number() {
  uint64_t value = 0;
  fill_random({reinterpret_cast<uint8_t*>(&value), sizeof value});
  return value;
}

}  // namespace stoker
