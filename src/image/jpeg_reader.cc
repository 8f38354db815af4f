// SPDX-License-Identifier: Apache-2.0
#include "image/jpeg_reader.h"

#include <algorithm>
#include <cstring>

#include "image/fault.h"

namespace stoker::image {

Status JpegReader::open(const StoredPicture& picture, const Box& region, Isa isa) {
  data_ = picture.data;
  region_ = region;
  done_ = 0;
  if (picture.coefficients != nullptr) {
    ours_ = sound_ = baseline_.open(*picture.coefficients, region, isa);
    // Who has kept them decodes the file instead, and gets its verdict.
    return ours_ ? ok() : Status(fault("corrupt", "the coefficients that were kept are damaged", -1));
  }
  // With an index even scalar code of ours is ahead of libjpeg's.
  bool ours = isa != Isa::kScalar || !picture.scan_index.empty();
  ours_ = sound_ = ours && baseline_.open(data_, region, isa, picture.scan_index);
  return ours_ ? ok() : libjpeg_.open(data_, region);
}

Result<int> JpegReader::read(uint8_t* const* rows, int count) {
  if (!ours_) return libjpeg_.read(rows, count);
  if (sound_) {
    int got = baseline_.read(rows, count);
    if (got >= 0) {
      done_ += got;
      return got;
    }
    STOKER_TRY(start_over());
  }
  return read_replaced(rows, count);
}

// What libjpeg passes over may depend on where it begins, so it begins where it would have without us.
Status JpegReader::start_over() {
  sound_ = false;
  STOKER_TRY(libjpeg_.open(data_, region_));
  if (replaced_.grow(libjpeg_.row_bytes()) == nullptr) {
    close();
    return no_memory(libjpeg_.row_bytes());
  }
  for (int given = 0; given < done_; ++given) {
    uint8_t* row = replaced_.grow(0);
    STOKER_TRY(libjpeg_.read(&row, 1));
  }
  return ok();
}

Result<int> JpegReader::read_replaced(uint8_t* const* rows, int count) {
  count = std::min(count, region_.height - done_);
  uint8_t* row = replaced_.grow(0);
  for (int i = 0; i < count; ++i, ++done_) {
    STOKER_TRY(libjpeg_.read(&row, 1));
    std::memcpy(rows[i] + baseline_.lead_bytes(), row + libjpeg_.lead_bytes(), 3 * size_t(region_.width));
  }
  return count;
}

Result<int> JpegReader::finish(uint8_t* scratch_row) {
  if (!ours_) return libjpeg_.finish(scratch_row);
  if (!sound_) return libjpeg_.finish(replaced_.grow(0));
  return 0;
}

void JpegReader::release() {
  baseline_.release();
  replaced_.release();
}

}  // namespace stoker::image
