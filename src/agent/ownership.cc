// SPDX-License-Identifier: Apache-2.0
#include "agent/ownership.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace stoker::agent {

AsCaller::AsCaller(int64_t uid, int64_t gid)
    : gid_(static_cast<uint32_t>(setfsgid(static_cast<gid_t>(gid)))) {
  uid_ = static_cast<uint32_t>(setfsuid(static_cast<uid_t>(uid)));
}

AsCaller::~AsCaller() {
  int failed = errno;
  setfsuid(uid_);
  setfsgid(gid_);
  errno = failed;
}

Status make_caller_folder(const std::string& path, int64_t uid, int64_t gid) {
  int failed = 0;
  {
    AsCaller caller(uid, gid);
    if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return ok();
    failed = errno;
  }
  // The parent is root's: nobody else can swap anything in it.
  if (failed == EACCES && mkdir(path.c_str(), 0755) == 0) {
    if (lchown(path.c_str(), static_cast<uid_t>(uid), static_cast<gid_t>(gid)) == 0) return ok();
    failed = errno;
  }
  return errno_error("make folder " + path, failed);
}

Result<UniqueFd> open_caller_file(const std::string& path, int flags, int64_t uid, int64_t gid) {
  AsCaller caller(uid, gid);
  return open_file(path, flags | O_NOFOLLOW, 0644);
}

std::string home_of(int64_t uid) {
  const passwd* entry = getpwuid(static_cast<uid_t>(uid));
  return entry ? entry->pw_dir : "/tmp";
}

}  // namespace stoker::agent
