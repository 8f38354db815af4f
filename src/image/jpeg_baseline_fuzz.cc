// SPDX-License-Identifier: Apache-2.0
// Any bytes: our reader, whole and in part, says of a JPEG what libjpeg says, with the same pixels; and what
// our decoder alone takes are libjpeg's pixels, too.
#include <cstring>

#include "image/decode.h"
#include "image/libjpeg_oracle.h"

using namespace stoker;
using namespace stoker::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Workspace workspace;
  ByteView bytes(data, size);
  auto header = read_header(bytes);
  if (!header.ok() || header->format != Format::kJpeg) return 0;
  if (int64_t{header->width} * header->height > 1 << 18) return 0;

  uint8_t seed[8] = {};
  std::memcpy(seed, data + size / 2, size - size / 2 < 8 ? size - size / 2 : 8);
  auto number = [&](int i) { return seed[2 * i] | seed[2 * i + 1] << 8; };
  int width = 1 + number(0) % header->width;
  int height = 1 + number(1) % header->height;
  Box part{number(2) % (header->width - width + 1), number(3) % (header->height - height + 1), width, height};
  for (const Box& box : {Box{0, 0, header->width, header->height}, part}) {
    auto expected = libjpeg_region(bytes, box);
    CHECK(agrees(decode_region(bytes, box, workspace), expected));
    for (Isa isa : {Isa::kScalar, Isa::kAvx2}) {
      if (kernels_of(isa) == nullptr) continue;
      auto ours = baseline_region(bytes, box, isa);
      CHECK(!ours || (expected.ok() && *ours == *expected));
    }
  }
  return 0;
}
