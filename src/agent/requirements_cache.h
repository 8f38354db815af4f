// SPDX-License-Identifier: Apache-2.0
// The folder of installed requirements: NAME/ is one installation, NAME.lock is held shared (flock) by every
// instance that uses it and exclusively by who makes or removes it. Its time of change is its last use.
#pragma once

#include <cstdint>
#include <string>

namespace stoker::agent {

// Removes the installations that were not used for longest until those left take at most `most_bytes`, save
// those that are in use. As whoever the calling thread acts as on files.
void evict_installations(const std::string& cache, int64_t most_bytes);

}  // namespace stoker::agent
