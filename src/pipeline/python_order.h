// SPDX-License-Identifier: Apache-2.0
// The order in which Python sorts file names: by code point of os.fsdecode(name), where a byte that is not
// UTF-8 becomes U+DC00 + byte. For valid UTF-8 that is the order of the bytes. Pure.
#pragma once

#include <string_view>

namespace stoker::pipeline {

bool less_as_python(std::string_view a, std::string_view b);

}  // namespace stoker::pipeline
