// SPDX-License-Identifier: Apache-2.0
// PictureTransform: the ops of a plan, done to one picture after another: encoded ones, or pixels in memory.
// Shared: any thread, const; each call needs buffers of its own.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/random.h"
#include "image/normalize.h"
#include "image/resize.h"
#include "image/stored_picture.h"
#include "image/view.h"
#include "pipeline/actions.h"
#include "pipeline/apply.h"
#include "pipeline/ops.h"
#include "pipeline/plan.h"
#include "pipeline/producer.h"
#include "pipeline/scratch_buffers.h"

namespace stoker::pipeline {

class PictureTransform {
 public:
  // `ops` have been checked, `after` is what check_ops() found; seed and libraries are the plan's.
  PictureTransform(Ops ops, const Known& after, const Plan& plan);

  Leaf leaf(std::string name) const;  // of the row that comes out
  Leaf mask_leaf(DType dtype) const;

  Producer::OpNames names() const;
  image::Gray16 gray16() const { return gray16_; }  // of what is decoded

  // Writes the row of leaf() to `out`; `timed`: and adds to scratch.times what each op took. Errors are of
  // the sample.
  Status encoded(SampleRef ref, const image::StoredPicture& stored, uint8_t* out, Scratch& scratch,
                 bool timed) const;
  Status pixels(SampleRef ref, const image::ImageView& picture, uint8_t* out, Scratch& scratch,
                bool timed) const;
  // A mask, through the geometry of the picture that the last call with these buffers was for.
  Status mask(ByteView file, DType dtype, uint8_t* out, Scratch::Buffers& buffers) const;

 private:
  Status decide_all(SampleRef ref, image::Size size, Scratch::Buffers& buffers) const;
  Status run(Stage& stage, uint8_t* out, Scratch& scratch, bool timed) const;
  Row row_at(uint8_t* out) const;

  Ops ops_;
  Known after_;
  image::Gray16 gray16_;
  uint64_t key_;
  image::PassOrder order_;
  std::unique_ptr<const image::NormalizeTable> table_;  // float output only
  bool table_normalizes_ = false;
};

// The draws of op number `op` of that sample.
SampleRandom draws_of(uint64_t key, SampleRef ref, size_t op);

}  // namespace stoker::pipeline
