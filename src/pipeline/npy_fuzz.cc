// SPDX-License-Identifier: Apache-2.0
// The header of a .npy of any bytes is refused, or states a size that fits.
#include "pipeline/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  auto header = pipeline::read_npy_header({data, size}, "fuzz");
  if (!header) {
    CHECK(header.error().fault.has_value());
    return 0;
  }
  CHECK(header->data_at <= size && !header->shape.empty());
  return 0;
}
