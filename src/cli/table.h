// SPDX-License-Identifier: Apache-2.0
// Columns for people: two spaces apart, as wide as their longest cell. Pure; widths are counted in bytes.
#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

// How the columns after the first, which is always to the left, are laid.
enum class Align { kLeft, kRight };

std::string table_text(const std::vector<std::vector<std::string>>& rows, Align align);

}  // namespace stoker::cli
