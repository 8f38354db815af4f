// SPDX-License-Identifier: Apache-2.0
#include "pipeline/picture_cache.h"

#include "base/hash.h"
#include "base/json.h"
#include "image/scan_index.h"
#include "pipeline/plan.h"

namespace stoker::pipeline {
namespace {

// Everything that says which picture an item is and how it is found; the version counts what entries hold.
std::string name_of(const PictureCacheOptions& options, const Plan& plan) {
  auto parsed = Json::parse(plan.json());
  std::string source = parsed ? (*parsed)["source"].dump() : plan.hash();
  return sha256_hex(as_bytes("pictures/1 " + options.kind + " " + source)).substr(0, 32);
}

}  // namespace

Result<std::unique_ptr<PictureCache>> PictureCache::open(const PictureCacheOptions& options,
                                                         const Plan& plan) {
  if (options.kind != "index") return invalid("a picture cache of \"" + options.kind + "\"");
  std::string folder = options.folder;
  if (folder.empty()) {
    STOKER_ASSIGN(std::string cache, cache_folder());
    folder = cache + "/pictures";
  }
  STOKER_TRY(make_directories(folder, 0700));
  std::string path = folder + "/" + name_of(options, plan);
  STOKER_ASSIGN(PictureStore store,
                PictureStore::open(path, plan.native().source.items, options.budget_bytes));
  return std::unique_ptr<PictureCache>(new PictureCache(path, std::move(store)));
}

ByteView PictureCache::scan_index(uint64_t item, const ItemStamp& stamp, ByteView file,
                                  std::vector<uint8_t>& buffer, image::Workspace& workspace) const {
  if (store_.find(item, stamp.value, buffer)) return buffer;
  auto made = image::make_scan_index(file, workspace);
  if (!made) return {};
  buffer = std::move(*made);
  if (stamp.settled) store_.put(item, stamp.value, buffer, static_cast<uint32_t>(buffer.size()));
  return buffer;
}

}  // namespace stoker::pipeline
