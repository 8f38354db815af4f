// SPDX-License-Identifier: Apache-2.0
#include "agent/requirements_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/files.h"

namespace stoker::agent {
namespace {

namespace fs = std::filesystem;

struct Installation {
  std::string name;
  int64_t used_ns = 0;
  int64_t bytes = 0;
};

int64_t bytes_of(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat info {};
    if (lstat(at->path().c_str(), &info) == 0) bytes += int64_t{info.st_blocks} * 512;
  }
  return bytes;
}

std::vector<Installation> installations(const std::string& cache) {
  std::vector<Installation> all;
  std::error_code failed;
  for (fs::directory_iterator at(cache, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat info {};
    const std::string path = at->path();
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    const int64_t used_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
    all.push_back({at->path().filename(), used_ns, bytes_of(path)});
  }
  return all;
}

}  // namespace

void evict_installations(const std::string& cache, int64_t most_bytes) {
  std::vector<Installation> all = installations(cache);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.used_ns < b.used_ns; });
  int64_t bytes = 0;
  for (const Installation& each : all) bytes += each.bytes;
  for (const Installation& oldest : all) {
    if (bytes <= most_bytes) return;
    // One that was never finished has the lock of what it would have become.
    const std::string lock_of = fs::path(oldest.name).stem();
    auto lock = open_file(cache + "/" + lock_of + ".lock", O_RDWR | O_CREAT | O_NOFOLLOW);
    if (!lock.ok() || flock(lock->get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code failed;
    fs::remove_all(cache + "/" + oldest.name, failed);
    if (!failed) bytes -= oldest.bytes;
  }
}

}  // namespace stoker::agent
