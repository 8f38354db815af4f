// SPDX-License-Identifier: Apache-2.0
// Whether a disk had no room for what a process wrote: its write() failed, which nobody but the process was
// told.
#pragma once

#include <cstdint>
#include <string>

namespace stoker::agent {

// The mount point of the file system that holds `path`, if next to nothing more can be written there by that
// user; "" where there is room, or nobody can say.
std::string full_disk_of(const std::string& path, int64_t uid);

}  // namespace stoker::agent
