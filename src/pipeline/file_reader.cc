// SPDX-License-Identifier: Apache-2.0
#include "pipeline/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"

namespace stoker::pipeline {
namespace {

Error failed(const std::string& what, const std::string& path, int err) {
  Error error = errno_error(what + " " + path, err);
  error.code = Code::kUnavailable;  // here and now; another machine may have it
  return error;
}

Error bad_file(const char* kind, const std::string& path, const std::string& why) {
  Error error{Code::kData, path + ": " + why, {}};
  error.fault = DataFault{kind, path, -1};
  return error;
}

}  // namespace

Result<ByteView> read_sample_file(const std::string& path, std::vector<uint8_t>& buffer) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // NONBLOCK: a FIFO opens at once
  struct stat st;
  if (!fd || fstat(fd.get(), &st) != 0) return failed("opening", path, errno);
  if (!S_ISREG(st.st_mode)) return bad_file("unreadable", path, "not a regular file");
  auto size = static_cast<uint64_t>(st.st_size);
  if (size > kMaxSampleFileBytes)
    return bad_file("too_large", path, std::to_string(size) + " bytes; the limit for a sample is 1 GiB");
  // One byte more than the size, so that the read which proves the end needs no larger buffer.
  if (buffer.size() < size + 1) buffer.resize(size + 1);
  size_t got = 0;
  while (true) {
    if (got == buffer.size()) {
      if (got > kMaxSampleFileBytes)
        return bad_file("too_large", path, "it grew past 1 GiB while being read");
      buffer.resize(2 * got);
    }
    ssize_t n = ::read(fd.get(), buffer.data() + got, buffer.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("reading", path, errno);
    if (n == 0) return ByteView(buffer.data(), got);
    got += static_cast<size_t>(n);
  }
}

void will_read_sample_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd) (void)posix_fadvise(fd.get(), 0, 0, POSIX_FADV_WILLNEED);
}

}  // namespace stoker::pipeline
