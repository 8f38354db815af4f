// SPDX-License-Identifier: Apache-2.0
// Where the index of a container file is kept between runs: the cache's `indexes`, under a name hashed from
// the kind of index and the file's path, size and time. What is loaded is checked by its reader. Confined.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "pipeline/random_access.h"

namespace stoker::pipeline {

class IndexCache {
 public:
  IndexCache(std::string_view kind, const std::string& path, const FileStamp& stamp, const Clock& clock);
  std::optional<std::vector<uint8_t>> load() const;
  // Whole or not at all. Keeps nothing of a file that was written within the last two seconds, whose time may
  // not show the next change; that it cannot be written costs only the next start.
  void keep(ByteView index) const;

 private:
  std::string at_;  // "" where there is no cache
  bool settled_;
};

}  // namespace stoker::pipeline
