// SPDX-License-Identifier: Apache-2.0
// Any bytes: an error with a kind, or a picture whose region equals the same part of the whole; and the same
// bytes as a mask.
#include <cstring>
#include <vector>

#include "image/decode.h"
#include "image/resized_crop.h"

using namespace stoker;
using namespace stoker::image;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Workspace whole_space;
  static Workspace region_space;
  ByteView bytes(data, size);
  auto header = read_header(bytes);
  if (!header.ok()) {
    CHECK(header.error().fault.has_value());
    return 0;
  }
  if (int64_t{header->width} * header->height > 1 << 18) return 0;
  auto whole = decode_rgb(bytes, whole_space);
  if (!whole.ok()) CHECK(whole.error().fault.has_value());

  uint8_t seed[4] = {};
  std::memcpy(seed, data + size / 2, size - size / 2 < 4 ? size - size / 2 : 4);
  int width = 1 + seed[0] % header->width;
  int height = 1 + seed[1] % header->height;
  Box box{seed[2] % (header->width - width + 1), seed[3] % (header->height - height + 1), width, height};
  auto region = decode_region(bytes, box, region_space);
  if (whole.ok()) {
    CHECK(region.ok());
    // Damage that libjpeg passes over may look different from another starting row.
    bool sound = whole_space.notes().jpeg_warnings == 0 && region_space.notes().jpeg_warnings == 0;
    for (int y = 0; sound && y < height; ++y) {
      CHECK(std::memcmp(region->row(y), whole->crop(box).row(y), 3 * size_t(width)) == 0);
    }
  }
  std::vector<uint8_t> numbers(3 * size_t(header->width) * size_t(header->height));
  auto mask = decode_numbers_into(bytes, packed(numbers.data(), header->size()), region_space);
  if (!mask.ok()) CHECK(mask.error().fault.has_value());

  uint8_t out[3 * 16 * 16];
  Status resized = decode_resized_crop(bytes, {.crop = box, .size = {16, 16}}, HwcBytes{out}, region_space);
  CHECK(resized.ok() == region.ok());
  return 0;
}
