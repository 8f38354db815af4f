// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace stoker {

std::string formatted(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int size = vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string out(size > 0 ? static_cast<size_t>(size) + 1 : 1, '\0');
  vsnprintf(out.data(), out.size(), format, again);
  va_end(again);
  out.pop_back();  // the end of a C string
  return out;
}

size_t character_size(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < size; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  return size;
}

std::string_view cut_text(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  // The last character begins at most three bytes before the cut; what is no character is cut anywhere.
  for (size_t at = most - std::min<size_t>(most, 3); at < most; ++at)
    if (at + character_size(text.substr(at)) > most) return text.substr(0, at);
  return text.substr(0, most);
}

std::string shown_text(std::string_view bytes) {
  bytes = bytes.substr(0, bytes.find_last_not_of(" \t\r\n") + 1);
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = character_size(bytes.substr(at));
    const auto first = static_cast<unsigned char>(bytes[at]);
    const bool control = size == 1
                             ? (first < 0x20 && first != '\t' && first != '\n') || first == 0x7f
                             : size == 2 && first == 0xc2 && static_cast<unsigned char>(bytes[at + 1]) < 0xa0;
    if (size > 0 && !control) {
      out += bytes.substr(at, size);
      at += size;
      continue;
    }
    for (size_t end = at + std::max<size_t>(size, 1); at < end; ++at) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(bytes[at]));
      out += escaped;
    }
  }
  return out;
}

}  // namespace stoker
