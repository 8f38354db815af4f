// SPDX-License-Identifier: Apache-2.0
// Two kinds of hash. XXH3 finds accidents, fast (frames, rows, stream digests); SHA-256 names content and
// proves a token, where somebody might want two things to look alike. The extension may not hold OpenSSL
// (docs/decisions), hence a SHA-256 of our own (FIPS 180-4), tested against published vectors. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace stoker {

uint64_t xxh3_64(ByteView bytes, uint64_t seed = 0);

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
  // Addition modulo 2^128: an order-free sum of hashes.
  Hash128& operator+=(const Hash128& other);
  std::string hex() const;  // 32 digits, most significant first
};
Hash128 xxh3_128(ByteView bytes, uint64_t seed = 0);

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void update(ByteView bytes);
  Sha256Digest finish();  // once

 private:
  void block(const uint8_t* at);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

Sha256Digest sha256(ByteView bytes);
std::string sha256_hex(ByteView bytes);
Sha256Digest hmac_sha256(ByteView key, ByteView message);  // RFC 2104
// Compares in time that does not depend on where they differ.
bool equal_in_constant_time(ByteView a, ByteView b);

}  // namespace stoker
