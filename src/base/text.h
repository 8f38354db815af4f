// SPDX-License-Identifier: Apache-2.0
// Text that people read, also of bytes that somebody else wrote. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stoker {

// As printf.
__attribute__((format(printf, 1, 2))) std::string formatted(const char* format, ...);

// Bytes of the well-formed UTF-8 character that `text` begins with (Unicode's table 3-7); 0 where there is
// none.
size_t character_size(std::string_view text);

// At most so many bytes of it; a character that would be cut is left out.
std::string_view cut_text(std::string_view text, size_t most);

// On one terminal's screen as in a log: bytes that are no UTF-8 and control characters but tab and end of
// line become "\xNN", spaces and ends of lines behind the text go. What has been through it stays as it is.
std::string shown_text(std::string_view bytes);

}  // namespace stoker
