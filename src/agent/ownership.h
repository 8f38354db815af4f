// SPDX-License-Identifier: Apache-2.0
// Acting on files as the caller while running as root: what is made belongs to the caller, and a link that
// the caller put in the way leads nowhere that the caller could not go.
#pragma once

#include <cstdint>
#include <string>

#include "base/files.h"
#include "base/result.h"

namespace stoker::agent {

// File access of the calling thread is the caller's until the end of the scope.
class AsCaller {
 public:
  AsCaller(int64_t uid, int64_t gid);
  ~AsCaller();
  AsCaller(const AsCaller&) = delete;

 private:
  uint32_t uid_, gid_;
};

// Makes one folder for the caller, also in a parent that is root's own. Being there is fine.
Status make_caller_folder(const std::string& path, int64_t uid, int64_t gid);
Result<UniqueFd> open_caller_file(const std::string& path, int flags, int64_t uid, int64_t gid);

// HOME of the caller's processes: what the machine knows, not what we were started with; /tmp where it knows
// none.
std::string home_of(int64_t uid);

}  // namespace stoker::agent
