// SPDX-License-Identifier: Apache-2.0
#include "base/crc32c.h"

#include <array>

namespace stoker {
namespace {

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78U : 0);
    table[i] = value;
  }
  return table;
}();

uint32_t by_table(uint32_t crc, ByteView bytes) {
  for (uint8_t byte : bytes) crc = kTable[(crc ^ byte) & 0xff] ^ crc >> 8;
  return crc;
}

// The instruction has a latency of three cycles and a throughput of one: three parts at a time are three
// times as quick. Their checksums are joined by running the first ones over as many zero bytes as follow
// them; kPart is fixed, so that this is a table per byte of the checksum.
constexpr size_t kPart = 1024;

constexpr std::array<std::array<uint32_t, 256>, 4> kShift = [] {
  // What kPart zero bytes make of each single bit: its image under one zero bit, applied 8 * kPart times.
  std::array<uint32_t, 32> step{};
  for (uint32_t bit = 0; bit < 32; ++bit) {
    uint32_t value = uint32_t{1} << bit;
    step[bit] = value >> 1 ^ (value & 1 ? 0x82f63b78U : 0);
  }
  auto apply = [](const std::array<uint32_t, 32>& matrix, uint32_t value) {
    uint32_t out = 0;
    for (uint32_t bit = 0; bit < 32; ++bit)
      if (value >> bit & 1) out ^= matrix[bit];
    return out;
  };
  static_assert((8 * kPart & (8 * kPart - 1)) == 0, "squared so often that it is a power of two");
  for (size_t bits = 1; bits < 8 * kPart; bits *= 2) {
    std::array<uint32_t, 32> squared{};
    for (uint32_t bit = 0; bit < 32; ++bit) squared[bit] = apply(step, step[bit]);
    step = squared;
  }
  std::array<std::array<uint32_t, 256>, 4> table{};
  for (uint32_t part = 0; part < 4; ++part)
    for (uint32_t byte = 0; byte < 256; ++byte) table[part][byte] = apply(step, byte << 8 * part);
  return table;
}();

uint32_t past_zeros(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^
         kShift[3][crc >> 24];
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t crc, ByteView bytes) {
  const uint8_t* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 3 * kPart; left -= 3 * kPart, at += 3 * kPart) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      a = __builtin_ia32_crc32di(a, load_le<uint64_t>(at + i));
      b = __builtin_ia32_crc32di(b, load_le<uint64_t>(at + kPart + i));
      c = __builtin_ia32_crc32di(c, load_le<uint64_t>(at + 2 * kPart + i));
    }
    crc = past_zeros(past_zeros(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^
          static_cast<uint32_t>(c);
  }
  uint64_t wide = crc;
  for (; left >= 8; left -= 8, at += 8) wide = __builtin_ia32_crc32di(wide, load_le<uint64_t>(at));
  return by_table(static_cast<uint32_t>(wide), {at, left});
}

}  // namespace

uint32_t crc32c_scalar(ByteView bytes) { return ~by_table(~0U, bytes); }

uint32_t crc32c(ByteView bytes) {
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  return has_instruction ? ~by_instruction(~0U, bytes) : crc32c_scalar(bytes);
}

}  // namespace stoker
