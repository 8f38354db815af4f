// SPDX-License-Identifier: Apache-2.0
// libjpeg-turbo behind Result: opens a JPEG, and hands out RGB rows of a region. Islow transform and smooth
// chroma upsampling, as Pillow. Confined to one thread; reusable, and after any error ready for the next
// open().
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/result.h"
#include "image/view.h"

namespace stoker::image {

class LibjpegReader {
 public:
  LibjpegReader();
  ~LibjpegReader();
  LibjpegReader(const LibjpegReader&) = delete;
  LibjpegReader& operator=(const LibjpegReader&) = delete;

  // Starts decoding the rows and columns under `region`, which must lie inside the picture. `data` must stay
  // until finish() or an error.
  Status open(ByteView data, const Box& region);

  // After open(): bytes that a row given to read() must hold, and where in it the region's first pixel will
  // be.
  size_t row_bytes() const;
  size_t lead_bytes() const;

  // Decodes up to `count` more rows of the region, in order, and returns how many: fewer only at its end.
  Result<int> read(uint8_t* const* rows, int count);

  // After the last row: checks that the file was whole; `scratch_row` holds a row. The number of libjpeg's
  // warnings.
  Result<int> finish(uint8_t* scratch_row);
  // Leaves a picture half read.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True if the picture's end marker is there: a walk over markers, not a decode.
bool jpeg_has_end(ByteView data);

}  // namespace stoker::image
