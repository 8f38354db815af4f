// SPDX-License-Identifier: Apache-2.0
#include "feed/sent_plan.h"

namespace stoker::feed {

SentPlan::SentPlan(std::string_view json, ByteView attachment) : json_size(json.size()) {
  payload.reserve(json.size() + attachment.size());
  payload.insert(payload.end(), json.begin(), json.end());
  payload.insert(payload.end(), attachment.begin(), attachment.end());
  hash = wire::block_hash(payload);
}

void send_plan(wire::Link& link, uint32_t number, std::shared_ptr<const SentPlan> plan) {
  wire::Header header = header_of(MessageType::kPlan, number);
  header.a = plan->json_size;
  header.hash = plan->hash;
  std::vector<ByteView> bulk = {plan->payload};
  link.send(header, {}, std::move(bulk), std::move(plan));
}

}  // namespace stoker::feed
