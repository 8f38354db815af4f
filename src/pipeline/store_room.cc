// SPDX-License-Identifier: Apache-2.0
#include "pipeline/store_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace stoker::pipeline {
namespace {

constexpr uint64_t kMostStep = uint64_t{64} << 20;
constexpr size_t kNameDigits = 32;
constexpr size_t kUnfinished = 7;  // ".XXXXXX" of one whose maker was killed
constexpr int64_t kMostWait_ns = 50'000'000;

using Folder = std::unique_ptr<DIR, decltype(&closedir)>;

struct Store {
  std::string name;
  UniqueFd fd;
  std::pair<int64_t, int64_t> used;  // last
  uint64_t bytes = 0;
};

bool named_as_store(std::string_view name) {
  bool whole = name.size() == kNameDigits;
  bool unfinished = name.size() == kNameDigits + kUnfinished && name[kNameDigits] == '.';
  auto digits = name.substr(0, kNameDigits);
  return (whole || unfinished) && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

std::vector<Store> stores_in(DIR* folder) {
  std::vector<Store> stores;
  while (const dirent* entry = readdir(folder)) {
    if (!named_as_store(entry->d_name)) continue;
    UniqueFd fd(::openat(dirfd(folder), entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    char magic[sizeof kStoreMagic] = {};
    struct stat st;
    if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    if (::pread(fd.get(), magic, sizeof magic, 0) != sizeof magic) continue;
    if (std::memcmp(magic, kStoreMagic, sizeof magic) != 0) continue;
    // By mtime, which a look as this one does not change.
    stores.push_back({entry->d_name, std::move(fd), {st.st_mtim.tv_sec, st.st_mtim.tv_nsec}, room_of(st)});
  }
  return stores;
}

bool is_named(int folder, const char* name, int fd) {
  struct stat own, named;
  return fstat(fd, &own) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

// One at a time makes room, or two would both remove for what one of them needs. Who is stopped while at it
// does not stop the others for long.
void take_turn(int folder) {
  int64_t begun = monotonic_ns();
  while (::flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (monotonic_ns() - begun > kMostWait_ns) return;
    ::usleep(1000);
  }
}

}  // namespace

uint64_t room_of(const struct stat& st) {
  return std::min(static_cast<uint64_t>(st.st_size), 512 * static_cast<uint64_t>(st.st_blocks));
}

uint64_t StoreRoom::step() const {
  return total_bytes_ == kHalfOfTheDisk ? kMostStep : std::min(kMostStep, total_bytes_ / 64);
}

bool StoreRoom::make(uint64_t bytes) const {
  Folder folder(opendir(folder_.c_str()), &closedir);
  if (!folder) return false;
  take_turn(dirfd(folder.get()));
  std::vector<Store> stores = stores_in(folder.get());
  uint64_t taken = 0, total = total_bytes_;
  for (const Store& store : stores) taken += store.bytes;
  if (total == kHalfOfTheDisk) {
    struct statvfs disk;
    if (fstatvfs(dirfd(folder.get()), &disk) != 0) return false;
    total = (taken + uint64_t{disk.f_bavail} * disk.f_frsize) / 2;
  }
  if (bytes > total) return false;
  std::sort(stores.begin(), stores.end(), [](const Store& a, const Store& b) { return a.used < b.used; });
  std::vector<const Store*> go;
  for (const Store& store : stores) {
    if (taken <= total - bytes) break;
    if (::flock(store.fd.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use
    if (!is_named(dirfd(folder.get()), store.name.c_str(), store.fd.get())) continue;
    go.push_back(&store);
    taken -= store.bytes;
  }
  if (taken > total - bytes) return false;
  for (const Store* store : go) (void)::unlinkat(dirfd(folder.get()), store->name.c_str(), 0);
  return true;
}

void note_use(int store) {
  timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  (void)::futimens(store, times);
}

Held hold_store(int store, const std::string& path) {
  // A file system without locks has stores that may be removed while they are used: who reads sees nothing of
  // it.
  if (::flock(store, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) return Held::kBusy;
  if (!is_named(AT_FDCWD, path.c_str(), store)) return Held::kRemoved;
  note_use(store);
  return Held::kYes;
}

}  // namespace stoker::pipeline
