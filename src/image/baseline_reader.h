// SPDX-License-Identifier: Apache-2.0
// Our own decoder for plain baseline JPEGs (jpeg_frame.h): RGB rows of a region, bit-equal to libjpeg-turbo's
// with islow transform and smooth upsampling. It takes only what is sound as far as the region needs it, and
// leaves every other verdict to libjpeg. Confined to one thread; reusable.
#pragma once

#include "base/bytes.h"
#include "image/buffer.h"
#include "image/huffman.h"
#include "image/jpeg_frame.h"
#include "image/jpeg_kernels.h"
#include "image/scan.h"
#include "image/view.h"

namespace stoker::image {

class BaselineReader {
 public:
  // False if the file is not ours, or seen to be damaged. `data` must stay until the last read().
  bool open(ByteView data, const Box& region, Isa isa);

  // After open(): bytes that a row given to read() must hold, and where in it the region's first pixel will
  // be.
  size_t row_bytes() const { return 3 * size_t(region_.left + region_.width - left_); }
  size_t lead_bytes() const { return 3 * size_t(region_.left - left_); }

  // Decodes up to `count` more rows of the region, in order, and returns how many: fewer only at its end. -1
  // if the bits are wrong, or too few; rows before are as libjpeg has them.
  int read(uint8_t* const* rows, int count);

  size_t bytes() const { return scan_.bytes() + planes_.bytes() + tables_.bytes(); }
  void release();

 private:
  struct Block {            // of a unit
    uint8_t* at = nullptr;  // its place in the first unit of the upper strip
    ptrdiff_t next_strip = 0;
    int next_unit = 0;
  };

  bool open_scan(ByteView data);
  void choose_units();
  bool make_planes();
  void set_steps();
  int needed_row(int y) const;
  bool skip_rows();
  bool decode_row();
  void extend_edges(int row);
  void convert(int y, uint8_t* out) const;
  // Row y of component c, at the first unit's column.
  uint8_t* sample_row(int c, int y) const;

  const JpegKernels* kernels_ = nullptr;
  JpegFrame frame_;
  Box region_;
  int left_ = 0;  // column of the first pixel that is made: where chroma begins
  int y_ = 0;     // next row of the picture

  Buffer scan_;
  HuffmanCache tables_;
  ScanTables scan_tables_;
  ScanBits bits_;
  ScanState state_;

  // Units by number across and down. Two strips of a row of units each, in turns.
  int first_unit_ = 0;
  int end_unit_ = 0;
  int row_ = 0;       // next to be decoded
  int last_row_ = 0;  // that the region needs
  Buffer planes_;
  uint8_t* plane_[3] = {};
  ptrdiff_t stride_ = 0;
  Block blocks_[kMaxBlocks];
  alignas(64) int16_t steps_[kMaxBlocks / 2][128] = {};  // as transform() wants them
};

}  // namespace stoker::image
