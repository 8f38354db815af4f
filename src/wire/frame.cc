// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <algorithm>

#include "base/hash.h"

namespace stoker::wire {
namespace {
uint32_t header_check(const uint8_t* at) { return static_cast<uint32_t>(xxh3_64({at, kHeaderSize - 4})); }
}  // namespace

HeaderBytes encode(const Header& header, bool checked) {
  HeaderBytes out{};
  uint8_t* at = out.data();
  store_le(at + 0, kMagic);
  store_le(at + 4, kVersion);
  store_le(at + 5, header.type);
  store_le(at + 6, header.flags);
  store_le(at + 8, header.plan);
  store_le(at + 12, header.request);
  store_le(at + 16, header.length);
  store_le(at + 24, header.a);
  store_le(at + 32, header.b);
  store_le(at + 40, header.c);
  store_le(at + 48, header.hash);
  store_le(at + 56, header.d);
  if (checked) store_le(at + 60, header_check(at));
  return out;
}

Result<Header> decode(ByteView bytes, bool checked) {
  if (bytes.size() != kHeaderSize)
    return invalid("a frame header of " + std::to_string(bytes.size()) + " bytes");
  const uint8_t* at = bytes.data();
  if (load_le<uint32_t>(at) != kMagic) return invalid("the peer does not speak stoker's protocol");
  if (uint8_t version = load_le<uint8_t>(at + 4); version != kVersion)
    return invalid("the peer speaks version " + std::to_string(version) +
                   " of the protocol, this is version " + std::to_string(kVersion));
  if (checked && load_le<uint32_t>(at + 60) != header_check(at))
    return Error{Code::kData, "a frame header was damaged on its way", {}};
  Header header;
  header.type = load_le<uint8_t>(at + 5);
  header.flags = load_le<uint16_t>(at + 6);
  header.plan = load_le<uint32_t>(at + 8);
  header.request = load_le<uint32_t>(at + 12);
  header.length = load_le<uint64_t>(at + 16);
  header.a = load_le<uint64_t>(at + 24);
  header.b = load_le<uint64_t>(at + 32);
  header.c = load_le<uint64_t>(at + 40);
  header.hash = load_le<uint64_t>(at + 48);
  header.d = load_le<uint32_t>(at + 56);
  return header;
}

void BlockHash::add(ByteView bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kHashPiece)))
    pieces_.push_back(xxh3_64(bytes.first(std::min(bytes.size(), kHashPiece))));
}

uint64_t BlockHash::finish() const {
  if (pieces_.empty()) return xxh3_64({});
  if (pieces_.size() == 1) return pieces_[0];
  return xxh3_64({reinterpret_cast<const uint8_t*>(pieces_.data()), pieces_.size() * sizeof pieces_[0]});
}

uint64_t block_hash(ByteView bytes) {
  if (bytes.size() <= kHashPiece) return xxh3_64(bytes);
  BlockHash hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace stoker::wire
