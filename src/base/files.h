// SPDX-License-Identifier: Apache-2.0
// Files and descriptors with one owner each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker {

// Owns a file descriptor; closes it once. Confined.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// A mapping of a file or memfd, unmapped once. Confined; the bytes may be read from any thread.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  static Result<Mapping> of_fd(int fd, size_t size, bool writable, bool prefault = false);
  static Result<Mapping> of_file(const std::string& path);  // read-only; an empty file gives an empty mapping
  ByteView bytes() const { return {at_, size_}; }
  MutableBytes writable() { return {at_, size_}; }

 private:
  uint8_t* at_ = nullptr;
  size_t size_ = 0;
};

Result<UniqueFd> open_file(const std::string& path, int flags, int mode = 0644);  // always O_CLOEXEC
Result<std::vector<uint8_t>> read_file(const std::string& path);
// Reads the whole file into `buffer`, growing it when needed and never shrinking it; returns the size read.
Result<size_t> read_file_into(const std::string& path, std::vector<uint8_t>& buffer);
Result<std::string> read_text(const std::string& path);
Status write_all(int fd, ByteView bytes);
// Writes beside and renames, so that a reader sees the old file or the new one. `mode` is exact, whatever the
// umask.
Status write_file_atomic(const std::string& path, ByteView bytes, int mode = 0644);
Status make_directories(const std::string& path, int mode = 0755);
Result<UniqueFd> make_memfd(const char* name, size_t size);  // sealed against shrinking

}  // namespace stoker
