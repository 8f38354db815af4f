// SPDX-License-Identifier: Apache-2.0
#include "control/feed_size.h"

namespace stoker::control {

Json FeedSize::to_json() const {
  Json json = agent::to_json(asked);
  json.set("asked_ms", asked_ms).set("told_not_free", told_not_free).set("failures", failures);
  json.set("again_ms", again_ms);
  return json;
}

FeedSize FeedSize::from_json(const Json& json) {
  return {agent::wanted_size_from_json(json), json["asked_ms"].as_int(), json["told_not_free"].as_bool(),
          json["failures"].as_int(), json["again_ms"].as_int()};
}

Json Resize::to_json() const {
  Json json;
  json.set("at_ms", at_ms).set("group", group).set("from", from).set("to", to).set("reason", reason);
  return json;
}

Resize Resize::from_json(const Json& json) {
  return {json["at_ms"].as_int(), json["group"].as_string(), json["from"].as_int(), json["to"].as_int(),
          json["reason"].as_string()};
}

}  // namespace stoker::control
