// SPDX-License-Identifier: Apache-2.0
// A manifest from any bytes is refused, or safe to read to its end.
#include "pipeline/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  auto manifest = pipeline::Manifest::from_bytes({data, data + size});
  if (!manifest) return 0;
  size_t bytes = 0;
  for (uint64_t i = 0; i < manifest->items(); ++i) {
    CHECK(!manifest->path(i).empty());
    if (manifest->has_extents()) {
      const pipeline::Extent& extent = manifest->extent(i);
      CHECK(extent.offset + extent.length <= manifest->file_size(extent.file));
      continue;
    }
    bytes += manifest->path(i).size() + static_cast<size_t>(manifest->label(i) == 0);
  }
  if (manifest->has_extents()) CHECK(manifest->file_starts().back() == manifest->items());
  for (size_t i = 0; i < manifest->class_count(); ++i) bytes += manifest->class_name(i).size();
  CHECK(bytes <= 2 * size);
  return 0;
}
