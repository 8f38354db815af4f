// SPDX-License-Identifier: Apache-2.0
// The instance's file tree: the host's root, read-only, with the plan's steps on top. System calls only (see
// shim.h).
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "agent/sandbox/shim.h"

// glibc's sys/mount.h and linux/mount.h cannot both be included in 2.36.
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*);
extern "C" int umount2(const char*, int);

namespace stoker::agent {
namespace {

constexpr unsigned long kNoSuid = 2, kNoDev = 4, kNoExec = 8, kReadOnly = 1, kBindFlag = 4096, kMove = 8192,
                        kRecursive = 16384, kPrivate = 1 << 18;
constexpr int kDetach = 2;

// The new root is put together on top of /proc: the one folder that no source of a bind can lie in.
constexpr const char* kNewRoot = "/proc";

bool set_attributes(const char* path, uint64_t attributes) {
  mount_attr wanted{};
  wanted.attr_set = attributes;
  return syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &wanted, sizeof wanted) == 0;
}

bool write_new_file(const MountStep& step) {
  int fd = open(step.target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const char* at = step.content.data();
  size_t left = step.content.size();
  while (left > 0) {
    ssize_t count = write(fd, at, left);
    if (count < 0) break;
    at += count;
    left -= static_cast<size_t>(count);
  }
  bool good = left == 0 && fchown(fd, step.uid, step.gid) == 0 && fchmod(fd, step.mode) == 0;
  int failed = errno;
  close(fd);
  errno = failed;
  return good;
}

bool make_folder(const MountStep& step) {
  const char* path = step.target.c_str();
  if (mkdir(path, 0700) != 0) return errno == EEXIST;
  return chown(path, step.uid, step.gid) == 0 && chmod(path, step.mode) == 0;
}

bool bind(const MountStep& step) {
  const char* target = step.target.c_str();
  if (mount(step.source.c_str(), target, nullptr, kBindFlag | kRecursive, nullptr) != 0) return false;
  return set_attributes(target, MOUNT_ATTR_NOSUID | (step.read_only ? MOUNT_ATTR_RDONLY : 0));
}

// Where the kernel has no overlay, the folder itself is bound: writes then reach the job's copy, not the
// user's files.
bool overlay(const MountStep& step) {
  const char* target = step.target.c_str();
  if (mount("overlay", target, "overlay", kNoSuid | kNoDev, step.content.c_str()) == 0) return true;
  return bind(step);
}

bool apply(const MountStep& step) {
  const char* target = step.target.c_str();
  switch (step.kind) {
    case MountStep::Kind::kBind:
      return bind(step);
    case MountStep::Kind::kTmpfs:
      return mount("tmpfs", target, "tmpfs", kNoSuid | kNoDev, step.content.c_str()) == 0;
    case MountStep::Kind::kDirectory:
      return make_folder(step);
    case MountStep::Kind::kFile:
      return write_new_file(step);
    case MountStep::Kind::kLink:
      return symlink(step.source.c_str(), target) == 0;
    case MountStep::Kind::kOverlay:
      return overlay(step);
    case MountStep::Kind::kProc:
      return mount("proc", target, "proc", kNoSuid | kNoDev | kNoExec, nullptr) == 0;
    case MountStep::Kind::kSysfs:
      return mount("sysfs", target, "sysfs", kNoSuid | kNoDev | kNoExec | kReadOnly, nullptr) == 0;
    case MountStep::Kind::kDevpts:
      return mount("devpts", target, "devpts", kNoSuid | kNoExec, "newinstance,ptmxmode=0666,mode=0620") == 0;
  }
  return false;
}

bool apply_all(const std::vector<MountStep>& steps, bool inside, const char** where) {
  for (const MountStep& step : steps) {
    if (step.inside != inside) continue;
    *where = step.target.c_str();
    if (!apply(step) && !step.optional) return false;
  }
  return true;
}

// pivot_root refuses when the machine itself runs from an initial RAM file system; there, move and chroot.
bool change_root() {
  if (syscall(SYS_pivot_root, ".", ".") == 0) return umount2(".", kDetach) == 0;
  return errno == EINVAL && mount(".", "/", nullptr, kMove, nullptr) == 0 && chroot(".") == 0;
}

}  // namespace

bool build_tree(const std::vector<MountStep>& mounts, const char** where) {
  *where = "making the mounts private";
  if (mount(nullptr, "/", nullptr, kRecursive | kPrivate, nullptr) != 0) return false;
  *where = "binding the root";
  if (mount("/", kNewRoot, nullptr, kBindFlag | kRecursive, nullptr) != 0) return false;
  *where = "making the root read-only";
  if (!set_attributes(kNewRoot, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID)) return false;
  *where = "entering the new root";
  if (chdir(kNewRoot) != 0) return false;
  if (!apply_all(mounts, false, where)) return false;
  *where = "changing the root";
  if (!change_root() || chdir("/") != 0) return false;
  return apply_all(mounts, true, where);
}

}  // namespace stoker::agent
