// SPDX-License-Identifier: Apache-2.0
// RGB rows of a region of a JPEG: our own decoder where the file is plain and sound, libjpeg-turbo for all
// else and for every verdict. On a processor without the vector instructions of our kernels libjpeg-turbo
// does it all: it has its own there. Confined to one thread; reusable, and after any error ready for the next
// open().
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "image/baseline_reader.h"
#include "image/libjpeg_reader.h"
#include "image/stored_picture.h"
#include "image/view.h"

namespace stoker::image {

class JpegReader {
 public:
  // Starts decoding the rows and columns under `region`, which must lie inside the picture, whose memory must
  // stay until finish() or an error.
  Status open(const StoredPicture& picture, const Box& region, Isa isa);

  // After open(): bytes that a row given to read() must hold, and where in it the region's first pixel will
  // be.
  size_t row_bytes() const { return ours_ ? baseline_.row_bytes() : libjpeg_.row_bytes(); }
  size_t lead_bytes() const { return ours_ ? baseline_.lead_bytes() : libjpeg_.lead_bytes(); }

  // Decodes up to `count` more rows of the region, in order, and returns how many: fewer only at its end.
  Result<int> read(uint8_t* const* rows, int count);

  // After the last row: checks that the file was whole; `scratch_row` holds a row. The number of libjpeg's
  // warnings.
  Result<int> finish(uint8_t* scratch_row);
  // Leaves a picture half read.
  void close() { libjpeg_.close(); }

  ScanReader& scan() { return baseline_.scan(); }  // see BaselineReader
  size_t bytes() const { return baseline_.bytes() + replaced_.bytes(); }
  void release();

 private:
  Status start_over();
  Result<int> read_replaced(uint8_t* const* rows, int count);

  BaselineReader baseline_;
  LibjpegReader libjpeg_;
  ByteView data_;
  Box region_;
  int done_ = 0;        // rows given
  bool ours_ = false;   // rows have our decoder's margins
  bool sound_ = false;  // and come from it, too
  Buffer replaced_;     // rows with libjpeg's margins
};

}  // namespace stoker::image
