// SPDX-License-Identifier: Apache-2.0
#include "pipeline/manifest.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "base/hash.h"

namespace stoker::pipeline {
namespace {

constexpr std::string_view kMagicOfFiles = "STOKMAN1";
constexpr std::string_view kMagicOfExtents = "STOKMAN2";
constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(Extent) == 24);

struct Counts {
  uint64_t items, classes, path_bytes, class_bytes, files;  // files: 0 where every item is one
  uint64_t paths(bool extents) const { return extents ? files : items; }
  uint64_t file_bytes(bool extents) const {
    return kHeaderBytes + 8 * items + (extents ? 24 * items + 8 * files : 0) + 8 * (paths(extents) + 1) +
           8 * (classes + 1) + path_bytes + class_bytes;
  }
};

Error corrupt(const std::string& name, const std::string& why, int64_t offset) {
  Error error{Code::kData, "manifest " + name + ": " + why, {}};
  error.fault = DataFault{"corrupt", name, offset};
  return error;
}

// Numbers in a mapping or a vector are aligned: both start on 16 bytes and sections are multiples of 8.
template <typename T>
std::span<const T> numbers(ByteView bytes, uint64_t at, uint64_t count) {
  return {reinterpret_cast<const T*>(bytes.data() + at), count};
}

bool rises(std::span<const uint64_t> starts, uint64_t end) {
  return starts.front() == 0 && starts.back() == end && std::is_sorted(starts.begin(), starts.end());
}

uint8_t* put(uint8_t* at, const void* from, size_t size) {
  if (size > 0) std::memcpy(at, from, size);  // an empty vector's data() may be null
  return at + size;
}

}  // namespace

Result<Manifest> Manifest::open(const std::string& path) {
  STOKER_ASSIGN(Mapping mapped, Mapping::of_file(path));
  auto owner = std::make_shared<Mapping>(std::move(mapped));
  return read(owner, owner->bytes(), path);
}

Result<Manifest> Manifest::from_bytes(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return read(owner, *owner, "(in memory)");
}

Result<Manifest> Manifest::read(std::shared_ptr<const void> owner, ByteView bytes, const std::string& name) {
  bool extents = bytes.size() >= kHeaderBytes && as_text(bytes.first(8)) == kMagicOfExtents;
  if (bytes.size() < kHeaderBytes || (!extents && as_text(bytes.first(8)) != kMagicOfFiles))
    return corrupt(name, "it does not begin with " + std::string(kMagicOfFiles) + " or its successor", 0);
  Counts counts{load_le<uint64_t>(&bytes[8]), load_le<uint64_t>(&bytes[16]), load_le<uint64_t>(&bytes[24]),
                load_le<uint64_t>(&bytes[32]), load_le<uint64_t>(&bytes[40])};
  uint64_t most = bytes.size();  // no count can pass it, so that sums cannot overflow
  if (counts.items > most || counts.classes > most || counts.path_bytes > most || counts.class_bytes > most ||
      counts.files > (extents ? most : 0) || counts.file_bytes(extents) != bytes.size() ||
      std::any_of(&bytes[48], &bytes[64], [](uint8_t b) { return b != 0; }))
    return corrupt(name, "its counts do not give its size of " + std::to_string(bytes.size()) + " bytes", 8);

  Manifest manifest;
  uint64_t at = kHeaderBytes;
  auto section = [&]<typename T>(std::span<const T>& into, uint64_t count) {
    into = numbers<T>(bytes, at, count);
    at += sizeof(T) * count;
  };
  section(manifest.labels_, counts.items);
  if (extents) {
    section(manifest.extents_, counts.items);
    section(manifest.sizes_, counts.files);
  }
  section(manifest.path_starts_, counts.paths(extents) + 1);
  section(manifest.class_starts_, counts.classes + 1);
  manifest.paths_ = reinterpret_cast<const char*>(bytes.data() + at);
  manifest.class_names_ = manifest.paths_ + counts.path_bytes;
  if (!rises(manifest.path_starts_, counts.path_bytes) || !rises(manifest.class_starts_, counts.class_bytes))
    return corrupt(name, "its starts do not rise to the sizes it states", kHeaderBytes);
  for (uint64_t i = 0; i < manifest.files(); ++i)
    if (manifest.path_starts_[i] == manifest.path_starts_[i + 1])
      return corrupt(name, "path " + std::to_string(i) + " is empty", kHeaderBytes);
  if (std::memchr(manifest.paths_, 0, counts.path_bytes))
    return corrupt(name, "a path holds a NUL", static_cast<int64_t>(at));
  uint64_t file = 0;
  for (const Extent& extent : manifest.extents_) {
    if (extent.file < file || extent.file >= counts.files)
      return corrupt(name, "its extents do not stand file by file", kHeaderBytes);
    file = extent.file;
    uint64_t size = manifest.sizes_[file];
    if (extent.offset > size || extent.length > size - extent.offset)
      return corrupt(name, "an extent ends outside of its file", kHeaderBytes);
  }

  manifest.owner_ = std::move(owner);
  manifest.bytes_ = bytes;
  manifest.hash_ = sha256_hex(bytes);
  return manifest;
}

void ManifestBuilder::add_class(std::string_view name) {
  class_names_ += name;
  class_starts_.push_back(class_names_.size());
}

void ManifestBuilder::add(std::string_view path, int64_t label) {
  CHECK(sizes_.empty());
  paths_ += path;
  path_starts_.push_back(paths_.size());
  labels_.push_back(label);
}

void ManifestBuilder::add_file(std::string_view path, uint64_t size) {
  CHECK(sizes_.size() + 1 == path_starts_.size());
  paths_ += path;
  path_starts_.push_back(paths_.size());
  sizes_.push_back(size);
}

void ManifestBuilder::add_extent(uint64_t offset, uint64_t length, int64_t label) {
  CHECK(!sizes_.empty());
  extents_.push_back({sizes_.size() - 1, offset, length});
  labels_.push_back(label);
}

std::vector<uint8_t> ManifestBuilder::finish() const {
  bool extents = !sizes_.empty();
  Counts counts{labels_.size(), class_starts_.size() - 1, paths_.size(), class_names_.size(), sizes_.size()};
  std::vector<uint8_t> out(counts.file_bytes(extents));
  std::string_view magic = extents ? kMagicOfExtents : kMagicOfFiles;
  put(put(out.data(), magic.data(), magic.size()), &counts, sizeof counts);
  uint8_t* at = out.data() + kHeaderBytes;
  at = put(at, labels_.data(), 8 * labels_.size());
  at = put(at, extents_.data(), sizeof(Extent) * extents_.size());
  at = put(at, sizes_.data(), 8 * sizes_.size());
  at = put(at, path_starts_.data(), 8 * path_starts_.size());
  at = put(at, class_starts_.data(), 8 * class_starts_.size());
  at = put(at, paths_.data(), paths_.size());
  put(at, class_names_.data(), class_names_.size());
  return out;
}

std::vector<uint64_t> Manifest::file_starts() const {
  std::vector<uint64_t> starts(files() + 1, items());
  for (uint64_t i = items(); i-- > 0;) starts[extents_[i].file] = i;
  for (uint64_t f = files(); f-- > 0;)  // a file without items begins where the next one does
    if (starts[f] > starts[f + 1]) starts[f] = starts[f + 1];
  return starts;
}

std::string_view path_under(std::string_view root, std::string_view path) {
  if (root.empty() || !path.starts_with(root)) return path;
  std::string_view below = path.substr(root.size());
  if (root.back() != '/') {
    if (!below.starts_with('/')) return path;
    below.remove_prefix(1);
  }
  return below.empty() || below[0] == '/' ? path : below;
}

Result<Manifest> manifest_of_files(std::string_view paths, std::span<const int64_t> labels,
                                   const std::vector<std::string>& classes, std::string_view root,
                                   std::string_view working_folder) {
  ManifestBuilder builder;
  for (const std::string& name : classes) builder.add_class(name);
  std::string joined;
  for (int64_t label : labels) {
    size_t end = std::min(paths.find('\0'), paths.size());
    std::string_view path = paths.substr(0, end);
    if (path.empty()) return invalid("files: item " + std::to_string(builder.items()) + " has no path");
    std::string_view below = path_under(root, path);
    if (below.size() == path.size() && path[0] != '/') {
      joined.assign(working_folder).append("/").append(path);
      below = joined;
    }
    builder.add(below, label);
    paths.remove_prefix(std::min(end + 1, paths.size()));
  }
  if (!paths.empty()) return invalid("files: there are more paths than labels");
  return Manifest::from_bytes(builder.finish());
}

}  // namespace stoker::pipeline
