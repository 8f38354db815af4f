// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace stoker {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (at_) munmap(at_, size_);
}

Result<Mapping> Mapping::of_fd(int fd, size_t size, bool writable, bool prefault) {
  Mapping mapping;
  if (size == 0) return mapping;
  int flags = MAP_SHARED | (prefault ? MAP_POPULATE : 0);
  void* at = mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0);
  if (at == MAP_FAILED) return errno_error("mapping " + std::to_string(size) + " bytes", errno);
  mapping.at_ = static_cast<uint8_t*>(at);
  mapping.size_ = size;
  return mapping;
}

Result<Mapping> Mapping::of_file(const std::string& path) {
  STOKER_ASSIGN(UniqueFd fd, open_file(path, O_RDONLY));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return errno_error("looking at " + path, errno);
  return of_fd(fd.get(), static_cast<size_t>(st.st_size), false);
}

Result<UniqueFd> open_file(const std::string& path, int flags, int mode) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return errno_error("opening " + path, errno);
  return fd;
}

Result<size_t> read_file_into(const std::string& path, std::vector<uint8_t>& buffer) {
  STOKER_ASSIGN(UniqueFd fd, open_file(path, O_RDONLY));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return errno_error("looking at " + path, errno);
  if (S_ISDIR(st.st_mode)) return errno_error("reading " + path, EISDIR);
  // One byte more than the size, so that a single read() of 0 proves the end; special files report size 0.
  size_t want = static_cast<size_t>(st.st_size) + 1;
  if (buffer.size() < want) buffer.resize(want);
  size_t got = 0;
  while (true) {
    if (got == buffer.size()) buffer.resize(buffer.size() * 2);
    ssize_t n = ::read(fd.get(), buffer.data() + got, buffer.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("reading " + path, errno);
    if (n == 0) return got;
    got += static_cast<size_t>(n);
  }
}

Result<std::vector<uint8_t>> read_file(const std::string& path) {
  std::vector<uint8_t> buffer;
  STOKER_ASSIGN(size_t size, read_file_into(path, buffer));
  buffer.resize(size);
  return buffer;
}

Result<std::string> read_text(const std::string& path) {
  STOKER_ASSIGN(std::vector<uint8_t> bytes, read_file(path));
  return std::string(as_text(bytes));
}

Status write_all(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_error("writing", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return ok();
}

Status write_file_atomic(const std::string& path, ByteView bytes, int mode) {
  std::string beside = path + ".new." + std::to_string(getpid());
  STOKER_ASSIGN(UniqueFd fd, open_file(beside, O_WRONLY | O_CREAT | O_TRUNC, mode));
  auto undo = [&](Error error) {
    ::unlink(beside.c_str());
    return std::move(error).during("writing " + path);
  };
  if (auto written = write_all(fd.get(), bytes); !written.ok()) return undo(std::move(written).error());
  if (fchmod(fd.get(), static_cast<mode_t>(mode)) != 0) return undo(errno_error("setting mode", errno));
  if (::rename(beside.c_str(), path.c_str()) != 0) return undo(errno_error("renaming", errno));
  return ok();
}

Status make_directories(const std::string& path, int mode) {
  std::error_code failure;
  if (std::filesystem::create_directories(path, failure); failure)
    return errno_error("making folder " + path, failure.value());
  if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0)
    return errno_error("setting mode of " + path, errno);
  return ok();
}

Result<UniqueFd> make_memfd(const char* name, size_t size) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return errno_error("making shared memory", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return errno_error("sizing shared memory to " + std::to_string(size) + " bytes", errno);
  // A reader that has mapped it must not be killed by SIGBUS because the other side shrank it.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) return errno_error("sealing shared memory", errno);
  return fd;
}

}  // namespace stoker
