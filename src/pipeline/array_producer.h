// SPDX-License-Identifier: Apache-2.0
// Rows of arrays, copied into rows of the batch: nothing between the array's memory (or the file's pages) and
// the slot; or pictures in them, transformed on the way. Shared: any thread, const.
#pragma once

#include <memory>
#include <vector>

#include "base/files.h"
#include "pipeline/plan.h"
#include "pipeline/producer.h"
#include "pipeline/transform.h"

namespace stoker::pipeline {

class ArrayProducer final : public Producer {
 public:
  // `columns`: the bytes of each, items() rows; the caller keeps them alive, and they do not change.
  static Result<std::unique_ptr<ArrayProducer>> open(const Plan& plan, std::vector<ByteView> columns);
  // From files mapped by the places of an attachment. kUnavailable for one that cannot be opened here, kData
  // for one that is too short. A file that shrinks while it is mapped ends the process, as for every mapping.
  static Result<std::unique_ptr<ArrayProducer>> open(const Plan& plan, ByteView attachment);

  const RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return items_; }
  OpNames ops() const override { return transform_ ? transform_->names() : OpNames{}; }
  bool quick() const override { return !transform_; }
  void comes_next(SampleRef ref) const override;
  Status produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const override;

 private:
  // A column on its way to its leaf.
  struct Column {
    ByteView bytes;
    uint64_t row_bytes = 0;
  };
  ArrayProducer(const ArrayPlan& plan, std::vector<ByteView> columns);
  Status with_pictures(const Plan& plan);
  Status picture(SampleRef ref, const Column& column, uint8_t* out, Scratch& scratch, bool timed) const;

  RowLayout layout_;
  uint64_t items_;
  std::vector<Mapping> mappings_;
  std::vector<Column> columns_;
  std::unique_ptr<const PictureTransform> transform_;  // of a plan with pictures:
  size_t picture_ = 0;                                 // the column they are in,
  image::Size size_;
  bool planes_ = false;
};

}  // namespace stoker::pipeline
