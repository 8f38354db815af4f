// SPDX-License-Identifier: Apache-2.0
// Reads the encoded bytes of a manifest's items: whole files, or extents of container files, which it keeps
// open. Shared: any thread, const; each with its own buffer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/manifest.h"
#include "pipeline/random_access.h"

namespace stoker::pipeline {

// Stands for an item's bytes as long as its file is the same. `settled`: a change from now on will show; not
// so where the file was written within the last two seconds, the coarsest time that file systems keep.
struct ItemStamp {
  uint64_t value = 0;
  bool settled = false;
};

class ItemReader {
 public:
  ItemReader(Manifest manifest, std::string root);
  ~ItemReader();
  ItemReader(ItemReader&&) noexcept;

  const Manifest& manifest() const { return manifest_; }
  // Of the file that is the item or holds it; absolute.
  std::string path(uint64_t item) const;
  // Where the item begins in it.
  uint64_t offset(uint64_t item) const { return manifest_.has_extents() ? manifest_.extent(item).offset : 0; }
  // kUnavailable whatever the reason that it could not be read; kData for what can never be: a container that
  // is not the one that was indexed, an item over 1 GiB, a file that is none. The view lies in `buffer`.
  Result<ByteView> read(uint64_t item, std::vector<uint8_t>& buffer) const;
  // To be taken before the item is read. Nothing if its file cannot be asked.
  std::optional<ItemStamp> stamp(uint64_t item) const;
  // Asks the kernel to read it ahead; says nothing of failures, which the read will meet.
  void will_need(uint64_t item) const;

 private:
  struct Containers;
  Result<std::shared_ptr<const RandomAccess>> container(uint64_t file) const;
  std::string file_path(uint64_t file) const;

  Manifest manifest_;
  std::string root_;
  std::unique_ptr<Containers> containers_;  // of a manifest with extents
};

}  // namespace stoker::pipeline
