// SPDX-License-Identifier: Apache-2.0
#include "agent/full_disk.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>

namespace stoker::agent {
namespace {

// What a process could not write may have been longer than what is left, and its end makes a little room.
constexpr uint64_t kNextToNothing = 64 << 10;

std::string mount_point(std::filesystem::path path) {
  struct stat here {
  }, above{};
  if (stat(path.c_str(), &here) != 0) return "";
  for (; path.has_relative_path(); path = path.parent_path())
    if (stat(path.parent_path().c_str(), &above) != 0 || above.st_dev != here.st_dev) break;
  return path;
}

}  // namespace

std::string full_disk_of(const std::string& path, int64_t uid) {
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0) return "";
  const uint64_t blocks = uid == 0 ? disk.f_bfree : disk.f_bavail;
  return blocks * disk.f_frsize < kNextToNothing ? mount_point(path) : "";
}

}  // namespace stoker::agent
