// SPDX-License-Identifier: Apache-2.0
// What workers and clients tell a dispatcher of themselves, REGISTER and SUBSCRIBE, and the view that it
// tells clients, as values and JSON: docs/formats/wire.md. Pure. A figure that is missing or of another kind
// is 0; whether it makes sense is for Membership and Sizing to say.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "feed/membership.h"
#include "feed/sizing.h"

namespace stoker::feed {

struct WorkerReport {
  Membership::Worker worker;
  Sizing::Worker figures;
  bool operator==(const WorkerReport&) const = default;

  Json to_json() const;
  static Result<WorkerReport> from_json(const Json& json);  // refused without an address that can be dialled
};

Json to_json(const Sizing::Consumer& consumer);
Sizing::Consumer consumer_from_json(const Json& json);

Json to_json(const std::vector<Sizing::Advice>& advice);
std::vector<std::string> addresses_of(const Json& view);  // of its workers, as they were told

}  // namespace stoker::feed
