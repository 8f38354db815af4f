// SPDX-License-Identifier: Apache-2.0
// PictureCache: makes decoding the pictures of a source cheaper from the second time on, without changing a
// byte of what comes out. It keeps what it learned of each picture in a PictureStore. Shared: any thread,
// const.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/workspace.h"
#include "pipeline/item_reader.h"
#include "pipeline/picture_store.h"

namespace stoker::pipeline {

class Plan;

struct PictureCacheOptions {
  std::string kind;    // "index"
  std::string folder;  // "": `pictures` in the cache folder
  uint64_t budget_bytes = uint64_t{16} << 30;
};

class PictureCache {
 public:
  // kUnavailable and the like where no store can be had; kInvalid for options that mean nothing.
  static Result<std::unique_ptr<PictureCache>> open(const PictureCacheOptions& options, const Plan& plan);

  // The scan index (image/scan_index.h) of the item's picture `file`, read or made; empty if it can have
  // none. The view lies in `buffer`.
  ByteView scan_index(uint64_t item, const ItemStamp& stamp, ByteView file, std::vector<uint8_t>& buffer,
                      image::Workspace& workspace) const;

  PictureStore::Figures figures() const { return store_.figures(); }
  const std::string& path() const { return path_; }

 private:
  PictureCache(std::string path, PictureStore store) : path_(std::move(path)), store_(std::move(store)) {}
  std::string path_;
  PictureStore store_;
};

}  // namespace stoker::pipeline
