// SPDX-License-Identifier: Apache-2.0
// UnitPlanes: samples of the rows of units that a region of a baseline JPEG needs, made from coefficients,
// and pixels made from the samples; two rows of units are kept, in turns. Where the coefficients come from is
// BaselineReader's business. Confined to one thread; reusable.
#pragma once

#include "image/buffer.h"
#include "image/jpeg_frame.h"
#include "image/jpeg_kernels.h"
#include "image/scan.h"
#include "image/view.h"

namespace stoker::image {

class UnitPlanes {
 public:
  // Only size, sampling and steps of the frame are used. False if there is no memory, or libjpeg would make
  // the pixels otherwise. The region lies inside the picture.
  bool open(const JpegFrame& frame, const Box& region, const JpegKernels& kernels);

  // Bytes that a row given to convert() must hold, and where in it the region's first pixel will be.
  size_t row_bytes() const { return 3 * size_t(region_.left + region_.width - left_); }
  size_t lead_bytes() const { return 3 * size_t(region_.left - left_); }

  // Units by number across and down.
  int first_unit() const { return first_unit_; }
  int end_unit() const { return end_unit_; }
  int first_row() const { return first_row_; }
  int last_row() const { return needed_row(region_.top + region_.height - 1); }
  // The last row of units that pixels of row y come from.
  int needed_row(int y) const;

  // Blocks of one unit as decode_unit() gives them; an odd number of them is followed by one of zeros. Rows
  // come in order, each whole from first_unit() on.
  void put(int row, int unit, const int16_t* blocks, const uint8_t* last);
  void end_row(int row);
  // Row y of the picture, once its rows of units are there.
  void convert(int y, uint8_t* out) const;

  size_t bytes() const { return planes_.bytes(); }
  void release() { planes_.release(); }

 private:
  struct Block {            // of a unit
    uint8_t* at = nullptr;  // its place in the first unit of the upper strip
    ptrdiff_t next_strip = 0;
    int next_unit = 0;
  };

  void choose_units();
  bool make_planes();
  void set_steps();
  // Row y of component c, at the first unit's column.
  uint8_t* sample_row(int c, int y) const;

  const JpegKernels* kernels_ = nullptr;
  JpegFrame frame_;
  Box region_;
  int left_ = 0;  // column of the first pixel that is made: where chroma begins
  int first_unit_ = 0;
  int end_unit_ = 0;
  int first_row_ = 0;

  Buffer planes_;
  uint8_t* plane_[3] = {};
  ptrdiff_t stride_ = 0;
  int pairs_ = 0;  // of blocks in a unit
  Block blocks_[kMaxBlocks];
  alignas(64) int16_t steps_[kMaxBlocks / 2][128] = {};  // as transform() wants them
};

}  // namespace stoker::image
