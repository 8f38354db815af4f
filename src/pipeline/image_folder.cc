// SPDX-License-Identifier: Apache-2.0
#include "pipeline/image_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "pipeline/folder_walk.h"
#include "pipeline/plan.h"

namespace stoker::pipeline {
namespace {

constexpr std::string_view kIndexFormat = "stoker-folder/1";
constexpr int64_t kCoarse_ns =
    2'000'000'000;  // a change this close to the listing may not show in a directory's times

Result<std::string> canonical(const std::string& root) {
  std::unique_ptr<char, decltype(&free)> path(realpath(root.c_str(), nullptr), &free);
  if (!path) return errno_error("image folder " + root, errno);
  return std::string(path.get());
}

std::string manifest_path(const std::string& cache, const std::string& hash) {
  return cache + "/manifests/" + hash;
}

std::string index_path(const std::string& cache, const std::string& root, bool allow_empty) {
  return cache + "/folders/" + sha256_hex(as_bytes(root + '\0' + (allow_empty ? "empty" : "")));
}

// Directory names may be any bytes, JSON may not: they go in as hex.
Json index_of(const std::string& hash, const std::vector<DirectoryStamp>& directories) {
  Json list{Json::Array{}};
  for (const DirectoryStamp& at : directories)
    list.push(Json::Array{to_hex(as_bytes(at.path)), at.device, at.inode, at.mtime_ns, at.ctime_ns});
  Json out;
  out.set("format", std::string(kIndexFormat)).set("manifest", hash).set("directories", list);
  return out;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::strtol(hex.substr(i, 2).c_str(), nullptr, 16)));
  return out;
}

// The last listing's manifest if nothing has changed since; otherwise nothing, whatever the reason.
std::optional<Manifest> unchanged(const std::string& cache, const std::string& root, bool allow_empty) {
  auto text = read_text(index_path(cache, root, allow_empty));
  if (!text) return {};
  auto index = Json::parse(*text);
  if (!index || (*index)["format"].as_string() != kIndexFormat) return {};
  for (const Json& entry : (*index)["directories"].as_array()) {
    const Json::Array& fields = entry.as_array();
    if (fields.size() != 5) return {};
    DirectoryStamp then{from_hex(fields[0].as_string()), static_cast<uint64_t>(fields[1].as_int()),
                        static_cast<uint64_t>(fields[2].as_int()), fields[3].as_int(), fields[4].as_int()};
    auto now = stamp_directory(root, then.path);
    if (!now || *now != then) return {};
  }
  const std::string& hash = (*index)["manifest"].as_string();
  auto manifest = Manifest::open(manifest_path(cache, hash));
  if (!manifest || manifest->hash() != hash) return {};
  return std::move(*manifest);
}

bool settled(const FolderWalk& walk, int64_t begun_ns) {
  for (const DirectoryStamp& at : walk.directories)
    if (at.mtime_ns > begun_ns - kCoarse_ns || at.ctime_ns > begun_ns - kCoarse_ns) return false;
  return !walk.links_to_files && walk.warnings.empty();
}

}  // namespace

Result<FolderListing> list_image_folder(const std::string& root, bool allow_empty_classes) {
  STOKER_ASSIGN(std::string at, canonical(root));
  STOKER_ASSIGN(FolderWalk walk, walk_image_folder(at, allow_empty_classes));
  STOKER_ASSIGN(Manifest manifest, Manifest::from_bytes(walk.manifest.finish()));
  return FolderListing{std::move(manifest), std::move(walk.warnings), false};
}

Result<FolderListing> open_image_folder(const std::string& root, bool allow_empty_classes,
                                        const Clock& clock) {
  STOKER_ASSIGN(std::string at, canonical(root));
  auto cache = cache_folder();
  if (!cache) return list_image_folder(at, allow_empty_classes);
  if (auto manifest = unchanged(*cache, at, allow_empty_classes))
    return FolderListing{std::move(*manifest), {}, true};

  int64_t begun_ns = clock.wall_ms() * 1'000'000;
  STOKER_ASSIGN(FolderWalk walk, walk_image_folder(at, allow_empty_classes));
  STOKER_ASSIGN(Manifest manifest, Manifest::from_bytes(walk.manifest.finish()));
  bool saved = save_manifest(manifest).ok();
  if (saved && settled(walk, begun_ns)) {
    // Only a faster next time is lost when this fails.
    (void)write_file_atomic(index_path(*cache, at, allow_empty_classes),
                            as_bytes(index_of(manifest.hash(), walk.directories).dump()), 0600);
  }
  return FolderListing{std::move(manifest), std::move(walk.warnings), false};
}

Result<std::string> cache_folder() {
  std::string user = "/stoker-" + std::to_string(getuid());
  auto from = [](const char* variable, const char* below) {
    const char* value = std::getenv(variable);
    return value && value[0] == '/' ? std::string(value) + below : std::string();
  };
  std::string temporary = from("TMPDIR", user.c_str());
  for (const std::string& folder : {from("XDG_CACHE_HOME", "/stoker"), from("HOME", "/.cache/stoker"),
                                    temporary.empty() ? "/tmp" + user : temporary}) {
    if (folder.empty()) continue;
    if (make_directories(folder, 0700).ok() && make_directories(folder + "/manifests", 0700).ok() &&
        make_directories(folder + "/folders", 0700).ok() && access(folder.c_str(), W_OK) == 0)
      return folder;
  }
  return unavailable(
      "no cache folder can be written: neither XDG_CACHE_HOME, ~/.cache nor the temporary folder");
}

Status save_manifest(const Manifest& manifest) {
  STOKER_ASSIGN(std::string cache, cache_folder());
  std::string path = manifest_path(cache, manifest.hash());
  auto there = Manifest::open(path);
  if (there && there->hash() == manifest.hash()) return ok();
  return write_file_atomic(path, manifest.bytes(), 0600);
}

Result<Manifest> find_manifest(const Plan& plan, ByteView attachment) {
  const ImageSource& source = plan.native().source;
  std::string tried;
  auto fits = [&](const Result<Manifest>& manifest, const std::string& from) {
    if (manifest && manifest->hash() == source.manifest && manifest->items() == source.manifest_items())
      return true;
    tried +=
        "; " + from + ": " + (manifest ? "another manifest, " + manifest->hash() : manifest.error().message);
    return false;
  };
  if (!attachment.empty()) {
    auto manifest = Manifest::from_bytes({attachment.begin(), attachment.end()});
    if (fits(manifest, "the attachment")) return manifest;
  }
  if (auto cache = cache_folder()) {
    auto manifest = Manifest::open(manifest_path(*cache, source.manifest));
    if (fits(manifest, "the cache")) return manifest;
  }
  if (source.kind == "image_folder") {
    auto listing = open_image_folder(source.root, true);
    Result<Manifest> manifest = listing ? Result<Manifest>(listing->manifest) : listing.error();
    if (fits(manifest, "listing " + source.root)) return manifest;
  }
  return Error{Code::kNotFound, "no manifest " + source.manifest + tried, {}};
}

}  // namespace stoker::pipeline
