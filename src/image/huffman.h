// SPDX-License-Identifier: Apache-2.0
// Huffman tables in the form that decodes fast: looked up by the next kPeekBits bits, an entry holds whole
// coefficients, two of them where they fit. Values, but for HuffmanCache, which is confined. The tables are
// plain arrays: the kernels' files must not make functions that others could be given, see AxisView.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace stoker::image {

inline constexpr int kPeekBits = 10;  // more would crowd the first-level cache

// An entry of AcTable, from the lowest byte on:
//   0     bits that it takes, at most kEntryBits; 0: a longer coefficient, see LongCodes, or none
//   1     how far the first coefficient is from the one before; kBlockEnd: the block ends
//   2     how far the second is from the first: 0 if there is none, kBlockEnd if the block ends there
//   3     bits that the first takes alone; kComputed with them if only its code fits
//   4-5   the second's value, or the first's again
//   6-7   the first's value; if that is to be computed, the bits of its code and its own
using AcEntry = uint64_t;
inline constexpr unsigned kEntryBits = 18;  // three look-ups, and 56 bits are read at once
inline constexpr unsigned kBlockEnd = 128;
inline constexpr unsigned kComputed = 128;

constexpr AcEntry ac_entry(unsigned bits, unsigned skip, unsigned skip2, unsigned bits1, int value,
                           int value2) {
  return AcEntry{bits} | AcEntry{skip} << 8 | AcEntry{skip2} << 16 | AcEntry{bits1} << 24 |
         AcEntry{uint16_t(value2)} << 32 | AcEntry{uint16_t(value)} << 48;
}

// All codes, found by comparing: for those that have no entry.
struct LongCodes {
  uint32_t limit[17];  // of 16 bits that begin with a code of this length or a shorter one
  int32_t offset[17];  // from such a code to its symbol's place
  uint8_t symbols[256];
};

struct AcTable {
  AcEntry entries[1 << kPeekBits];
  LongCodes codes;
};

// An entry: bits of code and value, bits of the code, bits of the value; 0 if the code is longer.
struct DcTable {
  uint32_t entries[1 << kPeekBits];
  LongCodes codes;
};
constexpr uint32_t dc_entry(unsigned code_bits, unsigned value_bits) {
  return (code_bits + value_bits) | code_bits << 8 | value_bits << 16;
}

// False if the stored table (see JpegComponent) is not one of a baseline JPEG.
bool build(ByteView stored, AcTable* table);
bool build(ByteView stored, DcTable* table);

// The tables used last: most files share theirs. Grows once.
class HuffmanCache {
 public:
  // nullptr as above, or if there is no memory. Valid until this has been called for kKept other tables.
  const AcTable* ac(ByteView stored);
  const DcTable* dc(ByteView stored);

  size_t bytes() const;
  void release() { kept_.reset(); }

 private:
  static constexpr size_t kKept = 4;  // the usual two, and two of a file with its own
  template <typename Table>
  struct Slot {
    std::array<uint8_t, 16 + 256> stored;
    size_t stored_bytes = 0;
    uint64_t used = 0;
    Table table;
  };
  struct Kept {
    std::array<Slot<AcTable>, kKept> ac;
    std::array<Slot<DcTable>, kKept> dc;
    uint64_t clock = 0;
  };
  template <typename Table>
  const Table* find(std::array<Slot<Table>, kKept> Kept::*slots, ByteView stored);

  std::unique_ptr<Kept> kept_;
};

}  // namespace stoker::image
