// SPDX-License-Identifier: Apache-2.0
// What open_native() opens: reads, decodes and transforms pictures of a manifest. Shared: any thread, const.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "pipeline/encoded.h"
#include "pipeline/item_reader.h"
#include "pipeline/other_formats.h"
#include "pipeline/picture_cache.h"
#include "pipeline/plan.h"
#include "pipeline/producer.h"
#include "pipeline/transform.h"

namespace stoker::pipeline {

class NativeProducer final : public Producer {
 public:
  static Result<std::unique_ptr<NativeProducer>> open(const Plan& plan, Manifest manifest,
                                                      const PictureCacheOptions& cache = {},
                                                      std::shared_ptr<const OtherFormats> others = nullptr);

  const RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return plan_.native().source.items; }
  Status produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const override;
  OpNames ops() const override;
  void will_need(std::span<const SampleRef> refs) const override;

  const PictureCache* cache() const { return cache_.get(); }  // null: there is none
  const Manifest& manifest() const { return reader_.manifest(); }
  std::string path(uint64_t item) const { return reader_.path(item); }  // absolute

 private:
  NativeProducer(const Plan& plan, const Known& after, Manifest manifest,
                 std::shared_ptr<const OtherFormats> others);
  Status transform(SampleRef ref, const image::StoredPicture& picture, uint8_t* out, Scratch& scratch,
                   bool timed) const;
  void tell_of_gray16(uint64_t item) const;
  Status mask(SampleRef ref, uint8_t* out, Scratch& scratch, bool timed) const;
  Status produce_item(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const;
  Result<int64_t> picture(SampleRef ref, uint8_t* out, Scratch& scratch, bool timed) const;
  std::optional<int64_t> kept_picture(SampleRef ref, const ItemStamp& stamp, uint8_t* out, Scratch& scratch,
                                      bool timed) const;
  Status replace(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch, Error damage) const;
  void tell_of(const Error& damage) const;
  Result<Encoded> read(uint64_t item, std::vector<uint8_t>& buffer) const;
  void open_cache(const PictureCacheOptions& options);
  // `stored`: the manifest's item that the error is of.
  Error located(Error error, SampleRef ref, uint64_t stored, uint64_t base) const;

  Plan plan_;
  ItemReader reader_;
  std::unique_ptr<const PictureCache> cache_;
  PictureTransform transform_;
  std::shared_ptr<const OtherFormats> others_;  // shared with the process's other producers; may be none
  RowLayout layout_;
  mutable std::atomic<bool> told_gray16_ = false;  // once per source
  mutable std::atomic<int> told_damage_ = 0;       // samples that were skipped or replaced, up to a few
};

// What is done to one sample, one object {"op": name, "did": [action, …]} per op of the plan (actions.h): for
// tests and for people who ask what was done to a picture.
Result<Json> sample_parameters(const Plan& plan, SampleRef ref, image::Size picture);

}  // namespace stoker::pipeline
