// SPDX-License-Identifier: Apache-2.0
#include "image/huffman.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <numeric>

namespace stoker::image {
namespace {

constexpr int kMaxCode = 16;
constexpr int kMaxAcBits = 10;  // of a value in a baseline JPEG of 8 bits a sample
constexpr int kMaxDcBits = 11;

// Calls each(symbol, code, length) in the order of the codes. False if the lengths make no prefix code; no
// code may be all ones.
template <typename Each>
bool for_codes(ByteView stored, LongCodes* codes, Each each) {
  if (stored.size() < kMaxCode) return false;
  size_t symbols = std::accumulate(stored.begin(), stored.begin() + kMaxCode, size_t{0});
  if (symbols > sizeof codes->symbols || stored.size() != kMaxCode + symbols) return false;
  std::fill(std::begin(codes->symbols), std::end(codes->symbols), uint8_t{0});
  std::copy(stored.begin() + kMaxCode, stored.end(), std::begin(codes->symbols));
  uint32_t code = 0;
  int32_t place = 0;
  codes->limit[0] = 0;
  codes->offset[0] = 0;
  for (int length = 1; length <= kMaxCode; ++length) {
    code <<= 1;
    codes->offset[length] = place - int32_t(code);
    for (int i = stored[size_t(length - 1)]; i > 0; --i) {
      if (code + 1 >= 1U << length) return false;
      if (!each(codes->symbols[place++], code++, length)) return false;
    }
    codes->limit[length] = code << (kMaxCode - length);
  }
  return true;
}

template <typename Entry>
void fill(Entry* entries, uint32_t prefix, int bits, Entry entry) {
  std::fill_n(entries + (prefix << (kPeekBits - bits)), 1U << (kPeekBits - bits), entry);
}

bool add(AcEntry* singles, int symbol, uint32_t code, int length) {
  int run = symbol >> 4;
  int bits = symbol & 15;
  if (bits > kMaxAcBits || (bits == 0 && run != 0 && run != 15)) return false;
  if (length > kPeekBits) return true;
  unsigned skip = symbol == 0 ? kBlockEnd : unsigned(run) + 1;
  unsigned total = unsigned(length + bits);
  if (total > kEntryBits) return true;
  if (total > kPeekBits) {
    fill(singles, code, length, ac_entry(total, skip, 0, total | kComputed, length | bits << 8, 0));
    return true;
  }
  int below = bits == 0 ? 0 : 1 - (1 << bits);  // values that begin with a zero are negative
  for (int i = 0; i < 1 << bits; ++i) {
    bool negative = bits > 0 && (i >> (bits - 1)) == 0;
    int value = negative ? i + below : i;
    fill(singles, code << bits | uint32_t(i), int(total), ac_entry(total, skip, 0, total, value, value));
  }
  return true;
}

unsigned bits_of(AcEntry entry) { return unsigned(entry & 0xFF); }
unsigned skip_of(AcEntry entry) { return unsigned(entry >> 8 & 0xFF); }
int value_of(AcEntry entry) { return int16_t(entry >> 48); }

}  // namespace

bool build(ByteView stored, AcTable* table) {
  // Zeroed entries are codes longer than the table's bits, or none at all.
  std::array<AcEntry, 1 << kPeekBits> singles{};
  bool good = for_codes(stored, &table->codes, [&](int symbol, uint32_t code, int length) {
    return add(singles.data(), symbol, code, length);
  });
  if (!good) return false;
  for (size_t i = 0; i < singles.size(); ++i) {
    AcEntry first = singles[i];
    AcEntry second = singles[i << bits_of(first) & (singles.size() - 1)];
    unsigned total = bits_of(first) + bits_of(second);
    bool both =
        bits_of(first) > 0 && bits_of(second) > 0 && total <= kPeekBits && skip_of(first) != kBlockEnd;
    table->entries[i] = !both ? first
                              : ac_entry(total, skip_of(first), skip_of(second), bits_of(first),
                                         value_of(first), value_of(second));
  }
  return true;
}

bool build(ByteView stored, DcTable* table) {
  std::fill(std::begin(table->entries), std::end(table->entries), 0U);
  return for_codes(stored, &table->codes, [&](int symbol, uint32_t code, int length) {
    if (symbol > kMaxDcBits) return false;
    if (length <= kPeekBits) fill(table->entries, code, length, dc_entry(unsigned(length), unsigned(symbol)));
    return true;
  });
}

template <typename Table>
const Table* HuffmanCache::find(std::array<Slot<Table>, kKept> Kept::*slots, ByteView stored) {
  if (!kept_) kept_.reset(new (std::nothrow) Kept);
  if (!kept_) return nullptr;
  Slot<Table>* oldest = nullptr;
  for (Slot<Table>& slot : (*kept_).*slots) {
    if (slot.stored_bytes == stored.size() &&
        std::memcmp(slot.stored.data(), stored.data(), stored.size()) == 0) {
      slot.used = ++kept_->clock;
      return &slot.table;
    }
    if (oldest == nullptr || slot.used < oldest->used) oldest = &slot;
  }
  oldest->stored_bytes = 0;
  if (!build(stored, &oldest->table)) return nullptr;
  std::copy(stored.begin(), stored.end(), oldest->stored.begin());
  oldest->stored_bytes = stored.size();
  oldest->used = ++kept_->clock;
  return &oldest->table;
}

const AcTable* HuffmanCache::ac(ByteView stored) { return find(&Kept::ac, stored); }
const DcTable* HuffmanCache::dc(ByteView stored) { return find(&Kept::dc, stored); }
size_t HuffmanCache::bytes() const { return kept_ ? sizeof(Kept) : 0; }

}  // namespace stoker::image
