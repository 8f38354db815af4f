// SPDX-License-Identifier: Apache-2.0
// Assignments, events and commands from anybody: refused, or the same value after another round.
#include "agent/protocol.h"
#include "base/bytes.h"

namespace {

template <typename Message>
void round_trip(const stoker::Json& json) {
  auto first = Message::from_json(json);
  if (!first.ok()) return;
  auto second = Message::from_json(first->to_json());
  CHECK(second.ok());
  CHECK(*second == *first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto json = stoker::Json::parse(stoker::as_text({data, size}));
  if (!json.ok()) return 0;
  round_trip<stoker::agent::Assignment>(*json);
  round_trip<stoker::agent::AgentEvent>(*json);
  round_trip<stoker::agent::AgentCommand>(*json);
  return 0;
}
