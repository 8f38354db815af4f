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

// Bits from the highest on. The address that a refill reads from is known since the one before, so that
// reading memory delays no look-up.
struct BitReader {
  const uint8_t* next;
  uint64_t bits = 0;  // the upper `count` are promised; those below are right, or zero
  unsigned count = 0;

  BitReader(const uint8_t* data, uint64_t at) : next(data + (at >> 3)) {
    refill();
    take(unsigned(at & 7));
  }
  // To at least 56.
  void refill() {
    uint64_t word;
    std::memcpy(&word, next, sizeof word);
    bits |= __builtin_bswap64(word) >> count;
    next += (63 - count) >> 3;
    count |= 56;
  }
  void take(unsigned n) {
    bits <<= n;
    count -= n;
  }
  uint64_t peek() const { return bits >> (64 - kPeekBits); }
  uint64_t at(const uint8_t* data) const { return 8 * uint64_t(next - data) - count; }
};

// The symbol of a code; -1 if there is none.
inline int long_symbol(const LongCodes& codes, uint64_t bits, unsigned* length) {
  uint32_t code = uint32_t(bits >> 48);
  for (unsigned n = 1; n <= 16; ++n) {
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

// A coefficient that has no entry, as one; it may have more bits than others. 0 if there is no such code.
[[gnu::noinline]] AcEntry long_entry(const AcTable& table, uint64_t bits) {
  unsigned length = 0;
  int symbol = long_symbol(table.codes, bits, &length);
  if (symbol < 0) return 0;
  unsigned size = unsigned(symbol) & 15;
  unsigned skip = symbol == 0 ? kBlockEnd : (unsigned(symbol) >> 4) + 1;
  int value = size == 0 ? 0 : extended(bits << length, size);
  return ac_entry(length + size, skip, 0, length + size, value, value);
}

// One block: the difference of its first coefficient, and the others if they are kept. How far the last
// coefficient is; -1 if the bits are wrong.
template <bool kKeep>
inline int block(const DcTable& dc, const AcTable& ac, BitReader* reader, int* difference, int16_t* out) {
  BitReader in = *reader;
  in.refill();
  uint32_t first = dc.entries[in.peek()];
  if (first == 0) [[unlikely]] {
    unsigned length = 0;
    int symbol = long_symbol(dc.codes, in.bits, &length);
    if (symbol < 0) return -1;
    first = dc_entry(length, unsigned(symbol));
  }
  *difference = extended(in.bits << (first >> 8 & 0xFF), first >> 16);
  in.take(first & 0xFF);

  unsigned k = 0;
  static_assert(3 * kEntryBits <= 56);
  for (;;) {
    in.refill();
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      AcEntry entry = ac.entries[in.peek()];
      if (uint8_t(entry) == 0) [[unlikely]] {
        in.refill();
        entry = long_entry(ac, in.bits);
        if (entry == 0) return -1;
        in.take(unsigned(entry & 63));
        in.refill();
        entry &= ~AcEntry{0xFF0000FF};  // nothing more is taken for it
      }
      unsigned k1 = k + unsigned(entry >> 8 & 0xFF);
      unsigned k2 = k1 + unsigned(entry >> 16 & 0xFF);
      if constexpr (kKeep) {
        int value = int(int64_t(entry) >> 48);
        int value2 = int(int64_t(entry) >> 32);
        if (entry & kComputed << 24) [[unlikely]] {
          value = value2 = extended(in.bits << (entry >> 48 & 0xFF), unsigned(entry >> 56));
        }
        out[kNatural.place[k1]] = int16_t(value);
        out[kNatural.place[k2]] = int16_t(value2);
      }
      if (k2 >= 63) {
        // A full block has no end code: what comes after the first is the next block's.
        in.take(unsigned(k1 == 63 ? entry >> 24 & 63 : entry & 63));
        *reader = in;
        if (k1 == 63 || k2 == 63) return 63;
        return k2 >= kBlockEnd && k2 < kBlockEnd + 63 ? int(k2 - kBlockEnd) : -1;
      }
      k = k2;
      in.take(unsigned(entry & 63));
    }
  }
}

bool decode_unit(const ScanTables& tables, const ScanBits& bits, ScanState* state, int16_t* out,
                 uint8_t* last) {
  BitReader in(bits.data, state->at);
  std::memset(out, 0, sizeof(int16_t) * size_t(kBlockStride) * size_t(tables.blocks));
  for (int b = 0; b < tables.blocks; ++b, out += kBlockStride) {
    int difference = 0;
    int end = block<true>(*tables.dc[b], *tables.ac[b], &in, &difference, out);
    if (end < 0) return false;
    out[0] = int16_t(state->dc[tables.component[b]] += difference);
    last[b] = uint8_t(end);
  }
  state->at = in.at(bits.data);
  return state->at <= bits.end;
}

bool skip_units(const ScanTables& tables, const ScanBits& bits, ScanState* state, int units) {
  BitReader in(bits.data, state->at);
  for (; units > 0; --units) {
    for (int b = 0; b < tables.blocks; ++b) {
      int difference = 0;
      if (block<false>(*tables.dc[b], *tables.ac[b], &in, &difference, nullptr) < 0) return false;
      state->dc[tables.component[b]] += difference;
    }
    if (in.at(bits.data) > bits.end) return false;
  }
  state->at = in.at(bits.data);
  return true;
}

}  // namespace
}  // namespace stoker::image
