// SPDX-License-Identifier: Apache-2.0
// gzip of any bytes is unpacked up to a limit, or refused with its place.
#include "pipeline/gunzip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  using namespace stoker::pipeline;
  uint64_t got = 0;
  auto done = gunzip(MemoryAccess({data, size}), "fuzz", 1 << 20, [&](ByteView piece) {
    got += piece.size();
    return ok();
  });
  CHECK(got <= 1 << 20);
  CHECK(done.ok() || done.error().fault.has_value());
  return 0;
}
