// SPDX-License-Identifier: Apache-2.0
// Our own decoder for plain baseline JPEGs (jpeg_frame.h): RGB rows of a region, bit-equal to libjpeg-turbo's
// with islow transform and smooth upsampling. It takes only what is sound as far as the region needs it, and
// leaves every other verdict to libjpeg. Confined to one thread; reusable.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "image/coefficients.h"
#include "image/jpeg_kernels.h"
#include "image/scan_index.h"
#include "image/scan_reader.h"
#include "image/stored_picture.h"
#include "image/unit_planes.h"
#include "image/view.h"

namespace stoker::image {

class BaselineReader {
 public:
  // False if the file is not ours, or seen to be damaged. `data` and `index` must stay until the last read().
  // An index (scan_index.h) saves decoding what lies beside the region; one that is not of this picture is
  // not used.
  bool open(ByteView data, const Box& region, Isa isa, ByteView index = {});

  // The same of a picture's kept coefficients. False if they cannot be had, or are seen to be damaged.
  bool open(KeptCoefficients& kept, const Box& region, Isa isa);

  // After open(): bytes that a row given to read() must hold, and where in it the region's first pixel will
  // be.
  size_t row_bytes() const { return planes_.row_bytes(); }
  size_t lead_bytes() const { return planes_.lead_bytes(); }

  // Decodes up to `count` more rows of the region, in order, and returns how many: fewer only at its end. -1
  // if the bits are wrong, or too few, or what is kept is damaged; rows before are as libjpeg has them.
  int read(uint8_t* const* rows, int count);

  ScanReader& scan() { return scan_; }  // for others between two pictures: its tables are kept
  size_t bytes() const { return scan_.bytes() + planes_.bytes(); }
  void release();

 private:
  bool reach(int unit);
  bool decode_row();
  bool decode_scan();
  bool decode_kept();

  UnitPlanes planes_;
  ScanReader scan_;
  std::optional<ScanIndex> index_;
  std::optional<Coefficients> kept_;
  const uint8_t* kept_rows_ = nullptr;  // from the first that the region needs on
  const JpegKernels* kernels_ = nullptr;
  int units_across_ = 0;
  int y_ = 0;    // next row of the picture
  int end_ = 0;  // after the region
  int row_ = 0;  // of units, next to be decoded
};

}  // namespace stoker::image
