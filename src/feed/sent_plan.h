// SPDX-License-Identifier: Apache-2.0
// A plan as it travels to workers and children: made once, sent to each from the same memory.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "feed/protocol.h"
#include "wire/link.h"

namespace stoker::feed {

struct SentPlan {
  SentPlan(std::string_view json, ByteView attachment);
  std::vector<uint8_t> payload;  // the JSON, then the attachment
  uint64_t json_size = 0;
  uint64_t hash = 0;  // of the payload
};

void send_plan(wire::Link& link, uint32_t number, std::shared_ptr<const SentPlan> plan);

}  // namespace stoker::feed
