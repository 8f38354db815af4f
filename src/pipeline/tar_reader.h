// SPDX-License-Identifier: Apache-2.0
// The members of a tar archive, header by header: old (v7), ustar, GNU (long names, base-256 numbers, sparse
// files) and pax (path, size). Data is passed over, not read. Confined.
//
// Stricter than readers that stop without a word: every header's checksum is verified, and an archive that
// ends inside a member or its padding, or inside a header, is an error. What follows the closing zero blocks
// is not read, and has_trailing() says that something does; is_closed() is false where an archive ends behind
// a member without them, as one that was cut there does, and one whose writer never closes. Errors are kData
// with the offset: not_tar, empty, truncated, corrupt, unsupported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/random_access.h"

namespace stoker::pipeline {

struct TarMember {
  std::string name;
  bool regular = false;  // has bytes of its own: a file, whole or sparse
  bool sparse = false;   // its bytes are in pieces: read_sparse() puts them together
  uint64_t header = 0;   // offset of its own header block (behind any that only extend it)
  uint64_t data = 0;     // offset of its first byte
  uint64_t size = 0;     // of the file it stands for
};

class TarReader {
 public:
  // Both outlive the reader. `name` is the archive's, for errors.
  TarReader(const RandomAccess& bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  Result<std::optional<TarMember>> next();  // nothing at the end
  bool has_trailing() const { return trailing_; }
  bool is_closed() const { return closed_; }  // after next() gave nothing
  // Of members small enough to lie in the window that was read for the header anyway.
  Status read(uint64_t offset, MutableBytes into);

 private:
  struct Extension;  // what the blocks before a header say of it
  using Block = const uint8_t*;
  Result<Block> block(uint64_t at);
  Result<std::string> extension_text(uint64_t size);
  Status apply_pax(const std::string& text, Extension& extension) const;
  Result<std::optional<TarMember>> end(uint64_t at);
  Status measure_sparse(Block header, TarMember& member, uint64_t& stored);
  Error bad(const char* kind, uint64_t at, const std::string& why) const {
    return damaged(kind, name_, at, why);
  }

  const RandomAccess& bytes_;
  const std::string& name_;
  std::vector<uint8_t> window_;
  uint64_t window_at_ = 0;
  uint64_t at_ = 0;  // of the next header
  bool trailing_ = false;
  bool closed_ = false;
};

// The bytes of a sparse member, holes filled with zeros, up to `most` of them (too_large beyond).
Result<std::vector<uint8_t>> read_sparse(const RandomAccess& bytes, const std::string& name, uint64_t header,
                                         uint64_t most);

}  // namespace stoker::pipeline
