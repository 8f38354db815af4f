// SPDX-License-Identifier: Apache-2.0
// The 64-byte header in front of every payload: docs/formats/wire.md. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::wire {

inline constexpr uint32_t kMagic = 0x464B5453;
inline constexpr uint8_t kVersion = 1;
inline constexpr size_t kHeaderSize = 64;
inline constexpr size_t kHashPiece = 256 << 10;  // what stays in a core's cache between copying and hashing

struct Header {
  uint8_t type = 0;
  uint16_t flags = 0;
  uint32_t plan = 0;
  uint32_t request = 0;
  uint64_t length = 0;
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  uint64_t hash = 0;
  uint32_t d = 0;
  bool operator==(const Header&) const = default;
};

using HeaderBytes = std::array<uint8_t, kHeaderSize>;

// `checked` is for TCP: a sum over the header guards it against damage.
HeaderBytes encode(const Header& header, bool checked);
// An error means that the peer does not speak our protocol or that bytes were damaged; the connection is
// unusable.
Result<Header> decode(ByteView bytes, bool checked);

// The hash of rows, units and payloads ("block hash" in the page), for bytes that arrive piece by piece.
// Confined.
class BlockHash {
 public:
  // Each call but the last must bring a multiple of kHashPiece.
  void add(ByteView bytes);
  uint64_t finish() const;  // of what has been added so far

 private:
  std::vector<uint64_t> pieces_;
};
uint64_t block_hash(ByteView bytes);

}  // namespace stoker::wire
