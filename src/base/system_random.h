// SPDX-License-Identifier: Apache-2.0
// Bytes that nobody can guess, from the system: for names, addresses and secrets. (What has to come out the
// same again is drawn with base/random.h.) Any thread.
#pragma once

#include <cstdint>
#include <span>

namespace stoker {

void fill_random(std::span<uint8_t> bytes);  // at most 256
uint64_t random_number();

}  // namespace stoker
