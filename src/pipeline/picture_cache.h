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
#include "image/stored_picture.h"
#include "image/workspace.h"
#include "pipeline/item_reader.h"
#include "pipeline/picture_store.h"

namespace stoker::pipeline {

class Plan;

struct PictureCacheOptions {
  std::string kind;                                  // "index" or "coefficients"
  std::string folder;                                // "": `pictures` in the cache folder
  uint64_t budget_bytes = uint64_t{16} << 30;        // of a source's store
  uint64_t total_bytes = StoreRoom::kHalfOfTheDisk;  // of all stores in the folder

  Status check() const;  // that the kind is one
};

// Coefficients (image/coefficients.h) of one picture, in a store or just made. Confined; the buffers are the
// caller's.
class CachedCoefficients final : public image::KeptCoefficients {
 public:
  // In `store`, with its head read to `head`; rows go to `rows` as they are asked for.
  CachedCoefficients(const PictureStore& store, PictureStore::Entry entry, const std::vector<uint8_t>& head,
                     std::vector<uint8_t>& rows)
      : store_(&store), entry_(entry), head_(head), rows_(&rows) {}
  // In memory, with kCoefficientSlack bytes behind them.
  CachedCoefficients(ByteView head, ByteView rows) : head_(head), made_(rows) {}

  int64_t label() const { return load_le<int64_t>(head_.data()); }
  uint64_t read_bytes() const { return read_bytes_; }

  ByteView head() const override;
  const uint8_t* read(size_t from, size_t to) override;

 private:
  const PictureStore* store_ = nullptr;
  PictureStore::Entry entry_;
  ByteView head_;  // the entry's: a label, then the picture's
  std::vector<uint8_t>* rows_ = nullptr;
  ByteView made_;
  uint64_t read_bytes_ = 0;
};

class PictureCache {
 public:
  // kUnavailable and the like where no store can be had; kInvalid for options that mean nothing.
  static Result<std::unique_ptr<PictureCache>> open(const PictureCacheOptions& options, const Plan& plan);

  // The scan index (image/scan_index.h) of the item's picture `file`, read or made; empty if it can have
  // none. The view lies in `buffer`.
  ByteView scan_index(uint64_t item, const ItemStamp& stamp, ByteView file, std::vector<uint8_t>& buffer,
                      image::Workspace& workspace) const;

  bool keeps_coefficients() const { return coefficients_; }
  // Those of the item's picture, if they are kept; what they give must be made from the file if it fails.
  std::optional<CachedCoefficients> find(uint64_t item, const ItemStamp& stamp, std::vector<uint8_t>& head,
                                         std::vector<uint8_t>& rows) const;
  // Those of its picture `file`, made into `buffer`, and kept; nothing if it can have none.
  std::optional<CachedCoefficients> make(uint64_t item, const ItemStamp& stamp, ByteView file, int64_t label,
                                         std::vector<uint8_t>& buffer, image::Workspace& workspace) const;
  // False if there is nothing of the item to be read ahead in the place of its file.
  bool will_need(uint64_t item) const { return coefficients_ && store_.will_need(item); }

  PictureStore::Figures figures() const { return store_.figures(); }
  const std::string& path() const { return path_; }

 private:
  PictureCache(std::string path, PictureStore store, bool coefficients)
      : path_(std::move(path)), store_(std::move(store)), coefficients_(coefficients) {}
  std::string path_;
  PictureStore store_;
  bool coefficients_;
};

}  // namespace stoker::pipeline
