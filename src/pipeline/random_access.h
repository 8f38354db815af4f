// SPDX-License-Identifier: Apache-2.0
// Bytes that may be read at any offset: of a file, or of memory that somebody else owns. Shared: any thread,
// const.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

// What the kernel says of a file as it is now, for telling whether it is still the one that was looked at:
// whatever changes its bytes changes this.
struct FileState {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
};
std::optional<FileState> file_state(const std::string& path);

class RandomAccess {
 public:
  virtual ~RandomAccess() = default;
  virtual uint64_t size() const = 0;
  // Fills `into` from `offset` on; both ends lie within size(). kUnavailable if it cannot be read now.
  virtual Status read(uint64_t offset, MutableBytes into) const = 0;
  // Nothing for what is no file.
  virtual std::optional<FileState> state() const { return {}; }
  // Asks the kernel to read ahead; may do nothing.
  virtual void will_need(uint64_t offset, uint64_t size) const { (void)offset, (void)size; }
};

class MemoryAccess final : public RandomAccess {
 public:
  explicit MemoryAccess(ByteView bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, MutableBytes into) const override;

 private:
  ByteView bytes_;
};

// What a name, a size and a time say of a file's content, without reading it.
struct FileStamp {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

// An archive or record file. One that is gzip (its first bytes say so) is unpacked once into the cache's
// `unpacked`, and read there: offsets and size() are of what was packed. Errors of unpacking are kData
// (truncated, corrupt, too_large) with the offset in the packed file.
struct Container {
  std::string path;  // as given
  FileStamp stamp;   // of the file as it is stored
  bool gzip = false;
  std::shared_ptr<const RandomAccess> bytes;  // shared with whoever reads items of it later
};
Result<Container> open_container(const std::string& path);

// Error of stored bytes: kData with a fault, and its place in the message.
Error damaged(const char* kind, const std::string& path, uint64_t offset, const std::string& why);

}  // namespace stoker::pipeline
