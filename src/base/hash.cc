// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <algorithm>
#include <bit>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stoker {

uint64_t xxh3_64_avx2(const uint8_t* at, size_t size, uint64_t seed);  // hash_avx2.cc
bool has_sha_instructions();                                           // hash_sha.cc
void sha256_blocks_sha(uint32_t* state, const uint8_t* at, size_t blocks, const uint32_t* rounds);

uint64_t xxh3_64(ByteView bytes, uint64_t seed) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2 && bytes.size() > 240) return xxh3_64_avx2(bytes.data(), bytes.size(), seed);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128& Hash128::operator+=(const Hash128& other) {
  uint64_t sum = low + other.low;
  high += other.high + (sum < low ? 1 : 0);
  low = sum;
  return *this;
}

std::string Hash128::hex() const {
  uint8_t raw[16];
  for (int i = 0; i < 8; ++i) {
    raw[i] = static_cast<uint8_t>(high >> (56 - 8 * i));
    raw[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
  }
  return to_hex(raw);
}

Hash128 xxh3_128(ByteView bytes, uint64_t seed) {
  XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {hash.low64, hash.high64};
}

namespace {
constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
}  // namespace

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {
}

void Sha256::block(const uint8_t* at) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{at[4 * i]} << 24 | uint32_t{at[4 * i + 1]} << 16 | uint32_t{at[4 * i + 2]} << 8 |
           at[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += add[i];
}

void Sha256::update(ByteView bytes) {
  total_ += bytes.size();
  if (pending_size_ > 0) {
    size_t take = std::min(bytes.size(), pending_.size() - pending_size_);
    std::copy_n(bytes.data(), take, pending_.data() + pending_size_);
    pending_size_ += take;
    bytes = bytes.subspan(take);
    if (pending_size_ < pending_.size()) return;
    block(pending_.data());
    pending_size_ = 0;
  }
  static const bool has_instructions = has_sha_instructions();
  if (has_instructions && bytes.size() >= 64) {
    sha256_blocks_sha(state_.data(), bytes.data(), bytes.size() / 64, kRound.data());
    bytes = bytes.subspan(bytes.size() / 64 * 64);
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
  pending_size_ = bytes.size();
}

Sha256Digest Sha256::finish() {
  uint64_t bits = total_ * 8;
  uint8_t padding[72] = {0x80};
  size_t zeros = (pending_size_ < 56 ? 56 : 120) - pending_size_;
  for (int i = 0; i < 8; ++i) padding[zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update({padding, zeros + 8});
  Sha256Digest out;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

Sha256Digest sha256(ByteView bytes) {
  Sha256 hasher;
  hasher.update(bytes);
  return hasher.finish();
}

std::string sha256_hex(ByteView bytes) { return to_hex(sha256(bytes)); }

Sha256Digest hmac_sha256(ByteView key, ByteView message) {
  std::array<uint8_t, 64> padded{};
  if (key.size() > padded.size()) {
    Sha256Digest hashed = sha256(key);
    std::copy(hashed.begin(), hashed.end(), padded.begin());
  } else {
    std::copy(key.begin(), key.end(), padded.begin());
  }
  auto keyed = [&](uint8_t pad, ByteView body) {
    std::array<uint8_t, 64> block = padded;
    for (uint8_t& b : block) b ^= pad;
    Sha256 hasher;
    hasher.update(block);
    hasher.update(body);
    return hasher.finish();
  };
  return keyed(0x5c, keyed(0x36, message));
}

bool equal_in_constant_time(ByteView a, ByteView b) {
  if (a.size() != b.size()) return false;
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace stoker
