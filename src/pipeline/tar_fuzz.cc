// SPDX-License-Identifier: Apache-2.0
// A tar of any bytes is refused, or indexed and safe to read to the end of each member. The index made of it
// is read back.
#include "pipeline/tar_index.h"
#include "pipeline/tar_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  using namespace stoker::pipeline;
  Container shard{"fuzz.tar", {size, 0}, false, std::make_shared<MemoryAccess>(ByteView(data, size))};
  auto index = TarIndex::build(shard);
  if (!index) {
    CHECK(index.error().fault.has_value());
    return 0;
  }
  for (uint64_t i = 0; i < index->samples(); ++i) {
    CHECK(!index->key(i).empty());
    for (const TarIndex::Member& member : index->members(i)) {
      (void)index->field(member);
      if (member.sparse) {
        (void)read_sparse(*shard.bytes, shard.path, member.offset, 1 << 20);
      } else {
        CHECK(member.offset <= size && member.length <= size - member.offset);
      }
    }
  }
  auto again = TarIndex::from_bytes({index->bytes().begin(), index->bytes().end()}, "again");
  CHECK(again.ok() && again->samples() == index->samples());
  return 0;
}
