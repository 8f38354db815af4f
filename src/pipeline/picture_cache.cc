// SPDX-License-Identifier: Apache-2.0
#include "pipeline/picture_cache.h"

#include "base/hash.h"
#include "base/json.h"
#include "image/coefficients.h"
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

constexpr size_t kLabelBytes = 8;  // of an entry's head, before what the image room knows

}  // namespace

ByteView CachedCoefficients::head() const { return head_.subspan(kLabelBytes); }

const uint8_t* CachedCoefficients::read(size_t from, size_t to) {
  if (store_ == nullptr) return to <= made_.size() && from <= to ? made_.data() + from : nullptr;
  if (from > to || to > entry_.size - entry_.head) return nullptr;
  size_t bytes = to - from;
  if (rows_->size() < bytes + image::kCoefficientSlack) rows_->resize(bytes + image::kCoefficientSlack);
  if (!store_->read(entry_, entry_.head + from, {rows_->data(), bytes})) return nullptr;
  read_bytes_ += bytes;
  return rows_->data();
}

Status PictureCacheOptions::check() const {
  if (kind == "index" || kind == "coefficients") return ok();
  return invalid("a picture cache is of \"index\" or \"coefficients\", not of \"" + kind + "\"");
}

Result<std::unique_ptr<PictureCache>> PictureCache::open(const PictureCacheOptions& options,
                                                         const Plan& plan) {
  STOKER_TRY(options.check());
  std::string folder = options.folder;
  if (folder.empty()) {
    STOKER_ASSIGN(std::string cache, cache_folder());
    folder = cache + "/pictures";
  }
  STOKER_TRY(make_directories(folder, 0700));
  std::string path = folder + "/" + name_of(options, plan);
  STOKER_ASSIGN(PictureStore store, PictureStore::open(path, plan.native().source.items, options.budget_bytes,
                                                       options.total_bytes));
  return std::unique_ptr<PictureCache>(
      new PictureCache(path, std::move(store), options.kind == "coefficients"));
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

std::optional<CachedCoefficients> PictureCache::find(uint64_t item, const ItemStamp& stamp,
                                                     std::vector<uint8_t>& head,
                                                     std::vector<uint8_t>& rows) const {
  auto entry = store_.find(item, stamp.value, head);
  if (!entry || entry->head < kLabelBytes) return {};
  return CachedCoefficients(store_, *entry, head, rows);
}

std::optional<CachedCoefficients> PictureCache::make(uint64_t item, const ItemStamp& stamp, ByteView file,
                                                     int64_t label, std::vector<uint8_t>& buffer,
                                                     image::Workspace& workspace) const {
  auto made = image::make_coefficients(file, kLabelBytes, workspace);
  if (!made) return {};
  buffer = std::move(made->bytes);
  store_le(buffer.data(), label);
  size_t size = buffer.size(), head = kLabelBytes + made->head;
  if (stamp.settled) store_.put(item, stamp.value, buffer, static_cast<uint32_t>(head));
  buffer.resize(size + image::kCoefficientSlack);
  return CachedCoefficients(ByteView(buffer).first(head), ByteView(buffer).subspan(head, size - head));
}

}  // namespace stoker::pipeline
