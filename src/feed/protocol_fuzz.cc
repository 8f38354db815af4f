// SPDX-License-Identifier: Apache-2.0
// What a peer may send: headers, requests, layouts, errors and what is told to and by a dispatcher, from
// anybody, is refused, or means the same after another round.
#include "feed/protocol.h"
#include "feed/reports.h"
#include "wire/tcp.h"

using namespace stoker;

namespace {

// Each line is what a worker and a client tell a second after the one before: whatever it is, a decision is
// made of it, and what is told of that can be read.
void decide(std::string_view text) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t now = 100 * kSecond;
  feed::Sizing sizing(now);
  for (size_t at = 0; at < text.size(); now += kSecond) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    auto json = Json::parse(line);
    if (!json.ok()) continue;
    if (auto report = feed::WorkerReport::from_json(*json); report.ok()) {
      auto again = feed::WorkerReport::from_json(report->to_json());
      CHECK(again.ok() && *again == *report);
      sizing.told(report->worker.address, report->figures, now);
    } else {
      const feed::Sizing::Consumer use = feed::consumer_from_json(*json);
      CHECK(feed::consumer_from_json(feed::to_json(use)) == use);
      sizing.told(1, use, now);
    }
    (void)feed::addresses_of(*json);
    (void)sizing.decide(now);
    for (const feed::Sizing::Advice& advice : sizing.advice()) CHECK(advice.wanted > 0);
    CHECK(Json::parse(feed::to_json(sizing.advice()).dump()).ok());
  }
}

}  // namespace

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
  decide(text);
  if (auto address = wire::parse_address(std::string(text)); address.ok()) {
    auto same = wire::parse_address(address->text());
    CHECK(same.ok());
  }
  return 0;
}
