// SPDX-License-Identifier: Apache-2.0
// Group texts from anybody: refused, or a group that is typed again the same.
#include "base/bytes.h"
#include "control/group_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto first = stoker::control::parse_group(stoker::as_text({data, size}));
  if (!first.ok()) return 0;
  auto second = stoker::control::parse_group(stoker::control::format_group(*first));
  CHECK(second.ok());
  CHECK(*second == *first);
  return 0;
}
