// SPDX-License-Identifier: Apache-2.0
#include "feed/protocol.h"

#include <gtest/gtest.h>

namespace stoker::feed {
namespace {

TEST(Frame, HeaderSurvivesTheTrip) {
  wire::Header header{9, 3, 1, 2, 4, 5, 6, 7, 8, 9};
  auto back = wire::decode(wire::encode(header, true), true);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, header);
}

TEST(Frame, DamageIsFoundInEveryByte) {
  wire::HeaderBytes good = wire::encode({9, 3, 1, 2, 4, 5, 6, 7, 8, 9}, true);
  for (size_t i = 0; i < good.size(); ++i) {
    wire::HeaderBytes bad = good;
    bad[i] ^= 0x10;
    EXPECT_FALSE(wire::decode(bad, true).ok()) << i;
  }
}

TEST(BlockHash, PiecewiseEqualsWhole) {
  std::vector<uint8_t> bytes(3 * wire::kHashPiece + 77);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 31 >> 3);
  wire::BlockHash hash;
  hash.add(ByteView(bytes).first(wire::kHashPiece));
  hash.add(ByteView(bytes).subspan(wire::kHashPiece));
  EXPECT_EQ(hash.finish(), wire::block_hash(bytes));
  EXPECT_EQ(wire::block_hash({}), wire::BlockHash().finish());
}

TEST(Layout, LeavesAreAlignedAndRoundTrip) {
  Layout layout{{{"image", "uint8", {3, 5, 7}, 105}, {"label", "int64", {}, 8}}};
  EXPECT_EQ(layout.leaf_offsets(3), (std::vector<uint64_t>{0, 320}));
  EXPECT_EQ(layout.slot_bytes(3), 384u);
  auto back = Layout::from_json(layout.to_json());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, layout);
}

TEST(Refs, RoundTripAndLimits) {
  std::vector<Ref> refs = {{1, 2}, {uint64_t{1} << 63, 4}};
  auto bytes = encode_refs(refs);
  EXPECT_EQ(*decode_refs(bytes, 2), refs);
  EXPECT_FALSE(decode_refs(bytes, 3).ok());
  EXPECT_FALSE(decode_refs({}, 0).ok());
}

TEST(FaultJson, KeepsWhatItDoesNotKnow) {
  Fault fault =
      fault_from_json(R"({"code":"data","message":"m","position":7,"item":3,"retry":false,"type":"ValueError",
                                   "fault":{"kind":"corrupt","path":"/x","offset":12}})");
  EXPECT_EQ(fault.error.code, Code::kData);
  EXPECT_EQ(fault.position, 7u);
  ASSERT_TRUE(fault.error.fault);
  EXPECT_EQ(fault.error.fault->offset, 12);
  Fault again = fault_from_json(fault_to_json(fault, "w"));
  EXPECT_EQ(again.json["type"].as_string(), "ValueError");
  EXPECT_EQ(again.json["worker"].as_string(), "w");
}

}  // namespace
}  // namespace stoker::feed
