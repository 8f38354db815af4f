// SPDX-License-Identifier: Apache-2.0
// Manifest: the list of a source's N items, each a file or an extent of one, and a label, in one file that is
// mapped and never parsed into objects. docs/formats/manifest.md is its format. Immutable; copies share the
// bytes; any thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

class Plan;

// Where an item lies in the file that holds it.
struct Extent {
  uint64_t file = 0;  // of files()
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Extent&) const = default;
};

class Manifest {
 public:
  // Both check everything that the format page promises; kData (corrupt, with path) if it does not hold.
  static Result<Manifest> open(const std::string& path);
  static Result<Manifest> from_bytes(std::vector<uint8_t> bytes);

  uint64_t items() const { return labels_.size(); }
  // Of the file that is the item, or that holds it. item < items()
  std::string_view path(uint64_t item) const { return file(has_extents() ? extents_[item].file : item); }
  bool has_extents() const { return !extents_.empty() || !sizes_.empty(); }
  const Extent& extent(uint64_t item) const { return extents_[item]; }  // has_extents()
  uint64_t files() const { return path_starts_.size() - 1; }            // items() where an item is a file
  std::string_view file(uint64_t index) const { return text(path_starts_, paths_, index); }
  uint64_t file_size(uint64_t index) const { return sizes_[index]; }  // has_extents(): when it was indexed
  // The first item of each file and items() at the end: has_extents(), whose items stand file by file.
  std::vector<uint64_t> file_starts() const;
  int64_t label(uint64_t item) const { return labels_[item]; }
  std::span<const int64_t> labels() const { return labels_; }
  size_t class_count() const { return class_starts_.size() - 1; }
  std::string_view class_name(size_t index) const { return text(class_starts_, class_names_, index); }

  const std::string& hash() const { return hash_; }  // SHA-256 of bytes(), hex
  ByteView bytes() const { return bytes_; }

 private:
  Manifest() = default;
  static Result<Manifest> read(std::shared_ptr<const void> owner, ByteView bytes, const std::string& name);
  static std::string_view text(std::span<const uint64_t> starts, const char* blob, uint64_t i) {
    return {blob + starts[i], starts[i + 1] - starts[i]};
  }
  std::shared_ptr<const void>
      owner_;  // a mapping or a vector; shared since copies of a manifest are views of it
  ByteView bytes_;
  std::span<const int64_t> labels_;
  std::span<const Extent> extents_;
  std::span<const uint64_t> sizes_;
  std::span<const uint64_t> path_starts_, class_starts_;
  const char* paths_ = nullptr;
  const char* class_names_ = nullptr;
  std::string hash_;
};

// Collects items and makes the file. Confined.
class ManifestBuilder {
 public:
  void add_class(std::string_view name);
  void add(std::string_view path, int64_t label);
  // For items inside files, instead of add(): each file, then what lies in it.
  void add_file(std::string_view path, uint64_t size);
  void add_extent(uint64_t offset, uint64_t length, int64_t label);
  uint64_t items() const { return labels_.size(); }
  std::vector<uint8_t> finish() const;

 private:
  std::vector<int64_t> labels_;
  std::vector<Extent> extents_;
  std::vector<uint64_t> sizes_;
  std::vector<uint64_t> path_starts_{0}, class_starts_{0};
  std::string paths_, class_names_;
};

// `path` relative to the folder `root`, as both are written; as it is where it is not below that.
std::string_view path_under(std::string_view root, std::string_view path);

// A list that somebody else made (a dataset's `samples`). `paths` are joined by NUL, one per label. A path
// under `root` (as written) becomes relative to it; other relative ones are put under `working_folder`.
Result<Manifest> manifest_of_files(std::string_view paths, std::span<const int64_t> labels,
                                   const std::vector<std::string>& classes, std::string_view root,
                                   std::string_view working_folder);

// The folder of caches, made if need be: $XDG_CACHE_HOME/stoker, ~/.cache/stoker or, where neither can be
// written, stoker-UID in the temporary folder.
Result<std::string> cache_folder();
Status save_manifest(const Manifest& manifest);  // into the cache, under its hash
// From the attachment, from the cache, or by listing the root again, whichever first has the plan's hash.
// kNotFound if none has, saying what each gave.
Result<Manifest> find_manifest(const Plan& plan, ByteView attachment = {});

}  // namespace stoker::pipeline
