// SPDX-License-Identifier: Apache-2.0
// Views of memory that somebody else owns, and little-endian numbers in them. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace stoker {

using ByteView = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// x86-64 is little-endian, and so is every format of ours: a copy is the conversion.
template <typename T>
T load_le(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store_le(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

std::string to_hex(ByteView bytes);

}  // namespace stoker
