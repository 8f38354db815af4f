// SPDX-License-Identifier: Apache-2.0
// A plan from any bytes is refused, or has a canonical form that reads back as the same plan.
#include "base/bytes.h"
#include "pipeline/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  auto plan = pipeline::Plan::parse(as_text({data, size}));
  if (!plan) return 0;
  auto again = pipeline::Plan::parse(plan->json());
  CHECK(again.ok());
  CHECK(again->json() == plan->json());
  CHECK(again->hash() == plan->hash());
  return 0;
}
