// SPDX-License-Identifier: Apache-2.0
#include "image/row_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "image/fault.h"
#include "image/workspace_parts.h"

namespace stoker::image {

Result<ViewRows> ViewRows::open(const ImageView& view, Workspace& workspace) {
  ViewRows rows;
  rows.view_ = view;
  size_t row_bytes = 3 * size_t(view.width);
  // A row may be read past its end where enough rows follow.
  int followers = int((kSlack + row_bytes + size_t(view.stride) - 1) / size_t(view.stride));
  rows.padded_from_ = std::max(0, view.height - followers);
  rows.padded_stride_ = round_up(row_bytes + kSlack, 64);
  size_t bytes = rows.padded_stride_ * size_t(view.height - rows.padded_from_);
  uint8_t* copy = workspace.parts().strip.grow(bytes);
  if (copy == nullptr) return no_memory(bytes);
  for (int y = rows.padded_from_; y < view.height; ++y) {
    uint8_t* to = copy + size_t(y - rows.padded_from_) * rows.padded_stride_;
    std::memcpy(to, view.row(y), row_bytes);
    std::memset(to + row_bytes, 0, kSlack);
  }
  rows.padded_ = copy;
  return rows;
}

Result<int> ViewRows::next(const uint8_t** rows, int count) {
  count = std::min(count, view_.height - at_);
  for (int i = 0; i < count; ++i, ++at_) {
    rows[i] = at_ < padded_from_ ? view_.row(at_) : padded_ + size_t(at_ - padded_from_) * padded_stride_;
  }
  return count;
}

Result<JpegRows> JpegRows::open(const StoredPicture& picture, const Box& region, int keep,
                                Workspace& workspace) {
  Workspace::Parts& parts = workspace.parts();
  TimedPart timed(parts, &PassTimes::decode_ns);
  STOKER_TRY(parts.jpeg.open(picture, region, parts.kernels->isa));
  JpegRows rows;
  rows.parts_ = &parts;
  rows.lead_ = parts.jpeg.lead_bytes();
  rows.stride_ = round_up(parts.jpeg.row_bytes() + kSlack, 64);
  rows.slots_ = int(round_up(size_t(keep + kRowBatch), kRowBatch));
  // One byte off a 32-byte border: there libjpeg-turbo would write rows past the cache, and we are about to
  // read them.
  size_t bytes = rows.stride_ * size_t(rows.slots_) + 1;
  rows.ring_ = parts.strip.grow(bytes);
  if (rows.ring_ == nullptr) return no_memory(bytes);
  ++rows.ring_;
  return rows;
}

JpegRows::JpegRows(JpegRows&& other) noexcept
    : parts_(std::exchange(other.parts_, nullptr)),
      ring_(other.ring_),
      stride_(other.stride_),
      slots_(other.slots_),
      at_(other.at_),
      lead_(other.lead_) {}

JpegRows::~JpegRows() {
  if (parts_ != nullptr) parts_->jpeg.close();
}

Result<int> JpegRows::next(const uint8_t** rows, int count) {
  TimedPart timed(*parts_, &PassTimes::decode_ns);
  uint8_t* into[kRowBatch];
  for (int i = 0; i < count; ++i) into[i] = ring_ + size_t((at_ + i) % slots_) * stride_;
  STOKER_ASSIGN(int got, parts_->jpeg.read(into, count));
  for (int i = 0; i < got; ++i) rows[i] = into[i] + lead_;
  at_ += got;
  return got;
}

Status JpegRows::finish() {
  TimedPart timed(*parts_, &PassTimes::decode_ns);
  STOKER_ASSIGN(parts_->notes.jpeg_warnings, parts_->jpeg.finish(ring_));
  return ok();
}

}  // namespace stoker::image
