// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <algorithm>

namespace stoker::cli {

std::string table_text(const std::vector<std::vector<std::string>>& rows, Align align) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string padding(widths[i] - row[i].size(), ' ');
      bool right = i > 0 && align == Align::kRight;
      line += (i > 0 ? "  " : "") + (right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace stoker::cli
