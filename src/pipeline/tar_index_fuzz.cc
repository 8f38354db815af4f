// SPDX-License-Identifier: Apache-2.0
// An index of any bytes, its hash made right, is refused or safe to read.
#include "base/hash.h"
#include "pipeline/tar_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  using namespace stoker::pipeline;
  std::vector<uint8_t> bytes(data, data + size);
  if (size >= 16) store_le(&bytes[8], xxh3_64(ByteView(bytes).subspan(16)));
  auto index = TarIndex::from_bytes(std::move(bytes), "fuzz");
  if (!index) return 0;
  size_t seen = 0;
  for (uint64_t i = 0; i < index->samples(); ++i) {
    seen += index->key(i).size();
    for (const TarIndex::Member& member : index->members(i)) seen += index->field(member).size() & 1;
  }
  CHECK(seen <= 2 * size);
  return 0;
}
