// SPDX-License-Identifier: Apache-2.0
#include "image/scan.h"

#include <cstring>

namespace stoker::image {

std::optional<size_t> plain_scan(ByteView data, size_t begin, uint8_t* out) {
  uint8_t* to = out;
  const uint8_t* from = data.data() + begin;
  const uint8_t* end = data.data() + data.size();
  for (;;) {
    // The C library compares widely; stuffing comes about every 256 bytes.
    const auto* mark = static_cast<const uint8_t*>(std::memchr(from, 0xFF, size_t(end - from)));
    if (mark == nullptr || end - mark < 2) return {};
    std::memcpy(to, from, size_t(mark - from));
    to += mark - from;
    from = mark + 2;
    if (mark[1] == 0xD9) break;
    if (mark[1] != 0) return {};
    *to++ = 0xFF;
  }
  std::memset(to, 0, kScanPadding);
  return size_t(to - out);
}

}  // namespace stoker::image
