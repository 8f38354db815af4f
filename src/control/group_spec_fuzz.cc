// SPDX-License-Identifier: Apache-2.0
// Group texts from anybody: refused, or a group within its limits.
#include "base/bytes.h"
#include "control/group_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto group = stoker::control::parse_group(stoker::as_text({data, size}));
  if (!group.ok()) return 0;
  CHECK(!group->name.empty() && !group->type.empty());
  CHECK(group->count >= 1 && group->count <= stoker::control::kMaxInstances);
  CHECK(group->role != stoker::agent::Role::kNone || group->serves.empty());
  return 0;
}
