// SPDX-License-Identifier: Apache-2.0
// The loops from bits to coefficients, for inclusion by the file of each instruction set: internal to it, so
// that no file gets another's instructions. See huffman.h for the entries.
#pragma once

#include <cstdint>
#include <cstring>

#include "image/jpeg_kernels.h"
#include "image/scan.h"

namespace stoker::image {
namespace {

// From zigzag order to rows. Places past the last coefficient are where values go that belong to no block.
struct Order {
  uint8_t place[256];
};
constexpr Order natural_order() {
  Order order{};
  int x = 0;
  int y = 0;
  for (int i = 0; i < 64; ++i) {
    order.place[i] = uint8_t(8 * y + x);
    bool up = (x + y) % 2 == 0;
    if (up ? x == 7 : y == 7) {
      ++(up ? y : x);
    } else if (up ? y == 0 : x == 0) {
      ++(up ? x : y);
    } else {
      x += up ? 1 : -1;
      y += up ? -1 : 1;
    }
  }
  for (int i = 64; i < 256; ++i) order.place[i] = 64;
  return order;
}
constexpr Order kNatural = natural_order();

// The next bits from the highest on; at least 57 of them are real.
inline uint64_t peek(const uint8_t* data, uint64_t at) {
  uint64_t word;
  std::memcpy(&word, data + (at >> 3), sizeof word);
  return __builtin_bswap64(word) << (at & 7);
}

// The symbol of a long code; -1 if there is none.
inline int long_symbol(const LongCodes& codes, uint64_t bits, unsigned* length) {
  uint32_t code = uint32_t(bits >> 48);
  for (unsigned n = kPeekBits + 1; n <= 16; ++n) {
    if (code < codes.limit[n]) {
      *length = n;
      return codes.symbols[int(code >> (16 - n)) + codes.offset[n]];
    }
  }
  return -1;
}

// The number that `size` bits from the highest on stand for.
inline int extended(uint64_t bits, unsigned size) {
  int magnitude = int(bits >> 1 >> (63 - size));
  int negative = int(int64_t(~bits) >> 63);  // all ones if it begins with a zero
  return magnitude + (negative & (1 - (1 << size)));
}

// An entry with its coefficient for what did not fit into the table; 0 if that is no code.
[[gnu::noinline]] AcEntry wide_entry(const AcTable& table, AcEntry entry, uint64_t bits) {
  unsigned skip = unsigned(entry >> 8 & 0xFF);
  unsigned size = unsigned(entry >> 16 & 0xFF);
  unsigned length = unsigned(entry >> 24 & 0xFF);
  if (skip == 0) {
    int symbol = long_symbol(table.codes, bits, &length);
    if (symbol < 0) return 0;
    size = unsigned(symbol) & 15;
    skip = symbol == 0 ? kBlockEnd : (unsigned(symbol) >> 4) + 1;
  }
  int value = size == 0 ? 0 : extended(bits << length, size);
  return ac_entry(length + size, skip, 0, length + size, value, value);
}

// One block from `at` on: its differences of the first coefficient, and the others if they are kept. How far
// the last coefficient is; -1 if the bits are wrong.
template <bool kKeep>
inline int block(const DcTable& dc, const AcTable& ac, const uint8_t* data, uint64_t* position,
                 int* difference, int16_t* out) {
  uint64_t at = *position;
  uint64_t bits = peek(data, at);
  uint32_t first = dc.entries[bits >> (64 - kPeekBits)];
  if (first == 0) [[unlikely]] {
    unsigned length = 0;
    int symbol = long_symbol(dc.codes, bits, &length);
    if (symbol < 0) return -1;
    first = dc_entry(length, unsigned(symbol));
  }
  *difference = extended(bits << (first >> 8 & 0xFF), first >> 16);
  at += first & 0xFF;
  bits = peek(data, at);

  unsigned k = 0;
  for (;;) {
#pragma GCC unroll 5
    for (int i = 0; i < 5; ++i) {  // of at most kPeekBits bits, or reads afresh
      AcEntry entry = ac.entries[bits >> (64 - kPeekBits)];
      bool wide = uint8_t(entry) == 0;
      if (wide) [[unlikely]] {
        entry = wide_entry(ac, entry, peek(data, at));
        if (entry == 0) return -1;
      }
      unsigned k1 = k + unsigned(entry >> 8 & 0xFF);
      unsigned k2 = k1 + unsigned(entry >> 16 & 0xFF);
      if constexpr (kKeep) {
        out[kNatural.place[k1]] = int16_t(entry >> 48);
        out[kNatural.place[k2]] = int16_t(entry >> 32);
      }
      if (k2 >= 63) {
        // A full block has no end code: what comes after the first is the next block's.
        *position = at + (k1 == 63 ? entry >> 24 & 0xFF : entry & 0xFF);
        if (k1 == 63 || k2 == 63) return 63;
        return k2 >= kBlockEnd && k2 < kBlockEnd + 63 ? int(k2 - kBlockEnd) : -1;
      }
      k = k2;
      at += entry & 0xFF;
      bits = wide ? peek(data, at) : bits << (entry & 63);
    }
    bits = peek(data, at);
  }
}

bool decode_unit(const ScanTables& tables, const ScanBits& bits, ScanState* state, int16_t* out,
                 uint8_t* last) {
  uint64_t at = state->at;
  std::memset(out, 0, sizeof(int16_t) * size_t(kBlockStride) * size_t(tables.blocks));
  for (int b = 0; b < tables.blocks; ++b, out += kBlockStride) {
    int difference = 0;
    int end = block<true>(*tables.dc[b], *tables.ac[b], bits.data, &at, &difference, out);
    if (end < 0) return false;
    out[0] = int16_t(state->dc[tables.component[b]] += difference);
    last[b] = uint8_t(end);
  }
  state->at = at;
  return at <= bits.end;
}

bool skip_units(const ScanTables& tables, const ScanBits& bits, ScanState* state, int units) {
  uint64_t at = state->at;
  for (; units > 0; --units) {
    for (int b = 0; b < tables.blocks; ++b) {
      int difference = 0;
      if (block<false>(*tables.dc[b], *tables.ac[b], bits.data, &at, &difference, nullptr) < 0) return false;
      state->dc[tables.component[b]] += difference;
    }
    if (at > bits.end) return false;
  }
  state->at = at;
  return true;
}

}  // namespace
}  // namespace stoker::image
