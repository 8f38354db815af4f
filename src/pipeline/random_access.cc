// SPDX-License-Identifier: Apache-2.0
#include "pipeline/random_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "pipeline/gunzip.h"

namespace stoker::pipeline {
namespace {

int64_t ns_of(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileState state_of(const struct stat& st) {
  return {static_cast<uint64_t>(st.st_size), ns_of(st.st_mtim), ns_of(st.st_ctim)};
}

class FileAccess final : public RandomAccess {
 public:
  FileAccess(UniqueFd fd, uint64_t size, std::string path)
      : fd_(std::move(fd)), size_(size), path_(std::move(path)) {}
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, MutableBytes into) const override {
    while (!into.empty()) {
      ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return unavailable(errno_error("reading " + path_, errno).message);
      if (n == 0) return unavailable("reading " + path_ + ": it has become shorter while in use");
      into = into.subspan(static_cast<size_t>(n));
      offset += static_cast<uint64_t>(n);
    }
    return ok();
  }
  std::optional<FileState> state() const override {
    struct stat st;
    if (fstat(fd_.get(), &st) != 0) return {};
    return state_of(st);
  }
  void will_need(uint64_t offset, uint64_t size) const override {
    (void)posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
  }

 private:
  UniqueFd fd_;
  uint64_t size_;
  std::string path_;
};

struct Opened {
  UniqueFd fd;
  FileStamp stamp;
};

Result<Opened> open_regular(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // NONBLOCK: a FIFO opens at once
  struct stat st;
  if (!fd || fstat(fd.get(), &st) != 0) return errno_error("opening " + path, errno);
  if (!S_ISREG(st.st_mode)) return damaged("unreadable", path, 0, "not a regular file");
  return Opened{std::move(fd), {static_cast<uint64_t>(st.st_size), ns_of(st.st_mtim)}};
}

}  // namespace

Status MemoryAccess::read(uint64_t offset, MutableBytes into) const {
  CHECK(offset <= bytes_.size() && into.size() <= bytes_.size() - offset);
  if (!into.empty()) std::memcpy(into.data(), bytes_.data() + offset, into.size());
  return ok();
}

std::optional<FileState> file_state(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  return state_of(st);
}

Error damaged(const char* kind, const std::string& path, uint64_t offset, const std::string& why) {
  Error error{Code::kData, path + ", byte " + std::to_string(offset) + ": " + why, {}};
  error.fault = DataFault{kind, path, static_cast<int64_t>(offset)};
  return error;
}

Result<Container> open_container(const std::string& path) {
  STOKER_ASSIGN(Opened file, open_regular(path));
  Container found{path, file.stamp, false, nullptr};
  auto bytes = std::make_shared<FileAccess>(std::move(file.fd), file.stamp.size, path);
  uint8_t mark[2] = {};
  if (bytes->size() >= sizeof mark) STOKER_TRY(bytes->read(0, mark));
  found.gzip = mark[0] == 0x1f && mark[1] == 0x8b;
  found.bytes = std::move(bytes);
  if (!found.gzip) return found;
  STOKER_ASSIGN(std::string unpacked, unpacked_file(path, found.stamp, *found.bytes));
  STOKER_ASSIGN(Opened plain, open_regular(unpacked));
  found.bytes = std::make_shared<FileAccess>(std::move(plain.fd), plain.stamp.size, unpacked);
  return found;
}

}  // namespace stoker::pipeline
