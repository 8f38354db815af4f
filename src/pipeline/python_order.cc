// SPDX-License-Identifier: Apache-2.0
#include "pipeline/python_order.h"

#include <algorithm>
#include <cstdint>

namespace stoker::pipeline {
namespace {

// The code point at `at`, which moves past it. As CPython's decoder with surrogateescape: a sequence that is
// not valid (overlong, surrogate, too large, cut) gives its first byte alone.
uint32_t next_code_point(std::string_view text, size_t& at) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byte(at++);
  if (lead < 0x80) return lead;
  int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4 || at + static_cast<size_t>(extra) > text.size()) return 0xDC00u + lead;
  uint32_t point = lead & (0x3Fu >> extra);
  for (int i = 0; i < extra; ++i) {
    uint8_t next = byte(at + static_cast<size_t>(i));
    if ((next & 0xC0) != 0x80) return 0xDC00u + lead;
    point = point << 6 | (next & 0x3F);
  }
  static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (point < kLeast[extra] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return 0xDC00u + lead;
  at += static_cast<size_t>(extra);
  return point;
}

}  // namespace

bool less_as_python(std::string_view a, std::string_view b) {
  size_t same = static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first - a.begin());
  if (same == a.size() || same == b.size()) {
    // One begins with the other: shorter first, unless the cut splits a sequence, which the general case
    // settles.
    if (a.size() == b.size()) return false;
    auto cut = static_cast<uint8_t>(same == a.size() ? b[same] : a[same]);
    if (cut < 0x80) return a.size() < b.size();
  } else if (static_cast<uint8_t>(a[same]) < 0x80 && static_cast<uint8_t>(b[same]) < 0x80) {
    return a[same] < b[same];
  }
  size_t in_a = 0, in_b = 0;
  while (in_a < a.size() && in_b < b.size()) {
    uint32_t point_a = next_code_point(a, in_a), point_b = next_code_point(b, in_b);
    if (point_a != point_b) return point_a < point_b;
  }
  return in_a == a.size() && in_b < b.size();
}

}  // namespace stoker::pipeline
