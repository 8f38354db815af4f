// SPDX-License-Identifier: Apache-2.0
// What a peer may send: headers, requests, layouts and errors from anybody are refused, or mean the same
// after another round.
#include "feed/protocol.h"
#include "wire/tcp.h"

using namespace stoker;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView bytes(data, size);
  if (size >= wire::kHeaderSize) {
    for (bool checked : {false, true}) {
      auto header = wire::decode(bytes.first(wire::kHeaderSize), checked);
      if (!header.ok()) continue;
      auto again = wire::decode(wire::encode(*header, checked), checked);
      CHECK(again.ok() && *again == *header);
    }
  }
  if (auto refs = feed::decode_refs(bytes, static_cast<uint32_t>(size / 16)); refs.ok()) {
    std::vector<uint8_t> again = feed::encode_refs(*refs);
    CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
  }
  std::string_view text = as_text(bytes);
  feed::Fault fault = feed::fault_from_json(text);
  feed::Fault again = feed::fault_from_json(feed::fault_to_json(fault, ""));
  CHECK(again.error.message == fault.error.message && again.position == fault.position);
  if (auto json = Json::parse(text); json.ok()) {
    if (auto layout = feed::Layout::from_json(*json); layout.ok()) {
      auto same = feed::Layout::from_json(layout->to_json());
      CHECK(same.ok() && *same == *layout);
    }
  }
  if (auto address = wire::parse_address(std::string(text)); address.ok()) {
    auto same = wire::parse_address(address->text());
    CHECK(same.ok());
  }
  return 0;
}
