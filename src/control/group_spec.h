// SPDX-License-Identifier: Apache-2.0
// NAME=COUNTxTYPE[:ROLE[@GROUP,…]] as users type it; COUNT of a feed group may be MIN..MAX. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/protocol.h"
#include "base/result.h"

namespace stoker::control {

struct GroupSpec {
  std::string name;
  int64_t count = 1;
  std::string type;  // as typed: ml.c5.9xlarge, c5.9xlarge, here, cpus=8,gpus=1,price=0.4
  agent::Role role = agent::Role::kNone;
  std::vector<std::string> serves;  // empty: every group without a role
  int64_t most = 0;                 // of MIN..MAX, where `count` is MIN; 0: always `count`
  bool elastic() const { return most > count; }
  bool operator==(const GroupSpec&) const = default;
};

constexpr int64_t kMaxInstances = 64;  // of one job on one machine

// Errors quote what was typed and say what was expected there.
Result<GroupSpec> parse_group(std::string_view text);

// Rules over all groups of a job: unique names, at least one without a role, helpers serve groups that exist
// and have no role, at most kMaxInstances. Fills `serves` of helpers that named none.
Status check_groups(std::vector<GroupSpec>& groups);

}  // namespace stoker::control
