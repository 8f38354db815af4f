// SPDX-License-Identifier: Apache-2.0
// The samples of one tar shard, as WebDataset groups them, in one block of bytes that is kept in the cache
// and never parsed into objects. docs/formats/container-index.md is its format. Immutable; copies share the
// bytes; any thread.
//
// The rule: members in archive order; a name's base is everything up to the first dot of its last part, the
// rest, in lower case, is the field; consecutive members of one base are one sample. Only regular files
// count; names whose last part begins and ends with two underscores, and names without such a dot, are passed
// over.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "pipeline/random_access.h"

namespace stoker::pipeline {

class TarIndex {
 public:
  struct Member {
    uint64_t offset = 0;  // of its bytes; of its header where it is sparse
    uint64_t length = 0;
    uint32_t field = 0;  // of field()
    uint32_t sparse = 0;
    uint8_t inlined[16] = {};  // the bytes themselves where they are this few: labels
    bool is_inlined() const { return !sparse && length <= sizeof inlined; }
  };

  // Reads every header. Errors as of TarReader, and duplicate_field for a name that comes twice in a sample.
  static Result<TarIndex> build(const Container& shard);
  // Checks all that the format page promises.
  static Result<TarIndex> from_bytes(std::vector<uint8_t> bytes, const std::string& name);

  uint64_t samples() const { return starts_.size() - 1; }
  std::string_view key(uint64_t sample) const;
  std::span<const Member> members(uint64_t sample) const {
    return members_.subspan(starts_[sample].member, starts_[sample + 1].member - starts_[sample].member);
  }
  std::string_view field(const Member& member) const;
  uint64_t shard_bytes() const;    // of the plain archive
  uint64_t left_out() const;       // links, devices, FIFOs
  uint64_t repeated_keys() const;  // samples whose key was there before, further up
  bool has_trailing() const;       // something follows the closing blocks
  bool is_closed() const;          // has such blocks
  FileStamp stamp() const;         // of the shard when it was indexed
  ByteView bytes() const { return bytes_; }

 private:
  struct Start {
    uint64_t member, key;
  };
  TarIndex() = default;
  uint64_t header(size_t word) const { return load_le<uint64_t>(&bytes_[8 * word]); }

  std::shared_ptr<const std::vector<uint8_t>> owner_;  // shared since copies are views of it
  ByteView bytes_;
  std::span<const Start> starts_;  // one more than samples
  std::span<const Member> members_;
  std::span<const uint64_t> field_starts_;
  const char* fields_ = nullptr;
  const char* keys_ = nullptr;
};

struct OpenShard {
  Container container;
  TarIndex index;
  bool from_cache = false;
};
// Through the cache: indexed again unless name, size and time of the shard are those of the last time. An
// index that is damaged is made anew; one that cannot be kept is no error.
Result<OpenShard> open_tar(const std::string& path, const Clock& clock = system_clock());

// The base and field of a member's name, or nothing where it has none.
struct MemberName {
  std::string_view base;
  std::string field;
};
std::optional<MemberName> split_member_name(std::string_view name);

}  // namespace stoker::pipeline
