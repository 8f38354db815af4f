// SPDX-License-Identifier: Apache-2.0
#include "pipeline/stage.h"

namespace stoker::pipeline {

using image::Box;
using image::Size;

Stage::Stage(const image::StoredPicture& stored, Size size, image::PassOrder order,
             image::Workspace& workspace, std::vector<uint8_t> (&spare)[2])
    : stored_(stored), workspace_(workspace), spare_(spare) {
  pending_.order = order;
  begin(size);
}

Stage::Stage(const image::ImageView& picture, image::PassOrder order, image::Workspace& workspace,
             std::vector<uint8_t> (&spare)[2])
    : stored_(ByteView()), decoded_(picture), workspace_(workspace), spare_(spare) {
  pending_.order = order;
  begin(picture.size());
}

void Stage::begin(Size size) {
  size_ = size;
  pending_ = {.crop = {0, 0, size.width, size.height}, .size = size, .order = pending_.order};
}

bool Stage::idle() const {
  Size stored = decoded_.size();
  return decoded_.data && pending_.crop == Box{0, 0, stored.width, stored.height} &&
         pending_.size == stored && !pending_.window && !pending_.flip && !pending_.upside_down;
}

Status Stage::run(const image::PixelOutput& output) {
  if (decoded_.data) return image::resized_crop(decoded_, pending_, output, workspace_);
  return image::decode_resized_crop(stored_, pending_, output, workspace_);
}

Result<image::MutableImageView> Stage::spare(Size size) {
  int64_t pixels = int64_t{size.width} * size.height;
  if (size.width < 1 || size.height < 1 || pixels > image::kMaxPixels) {
    Error error{Code::kData, "an op would make a picture of " + std::to_string(pixels) + " pixels", {}};
    error.fault = DataFault{"too_large", "", -1};
    return error;
  }
  std::vector<uint8_t>& buffer = spare_[next_spare_];
  next_spare_ = 1 - next_spare_;  // the other one may hold what is read now
  if (buffer.size() < 3 * static_cast<size_t>(pixels)) buffer.resize(3 * static_cast<size_t>(pixels));
  return image::packed(buffer.data(), size);
}

void Stage::read_from(const image::MutableImageView& buffer) {
  buffer_ = buffer;
  decoded_ = buffer;
  begin(buffer.size());
}

Status Stage::flush() {
  if (idle()) return ok();
  STOKER_ASSIGN(image::MutableImageView out, spare(pending_.written().size()));
  STOKER_TRY(run(image::HwcBytes{out.data}));
  read_from(out);
  return ok();
}

Result<image::MutableImageView> Stage::pixels() {
  STOKER_TRY(flush());
  if (!buffer_.data) {  // nothing was done to what may not be changed
    STOKER_ASSIGN(image::MutableImageView out, spare(size_));
    STOKER_TRY(run(image::HwcBytes{out.data}));
    read_from(out);
  }
  return buffer_;
}

Result<image::ImageView> Stage::view() {
  STOKER_TRY(flush());
  return decoded_;
}

Result<Stage::Copy> Stage::copy(Size to) {
  STOKER_TRY(flush());
  STOKER_ASSIGN(image::MutableImageView out, spare(to));
  Copy copy{decoded_, out};
  read_from(out);
  return copy;
}

Status Stage::crop(const Box& box, const image::Border& border) {
  if (!image::inside(box, size_)) {
    STOKER_ASSIGN(Copy both, copy(box.size()));
    image::crop(both.from, box, both.to, border);
    return ok();
  }
  Box stored = box;  // before the flips
  if (pending_.flip) stored.left = size_.width - box.left - box.width;
  if (pending_.upside_down) stored.top = size_.height - box.top - box.height;
  if (pending_.size == pending_.crop.size() && !pending_.window) {
    // Not resized: a crop of a crop is a crop.
    pending_.crop = {pending_.crop.left + stored.left, pending_.crop.top + stored.top, box.width, box.height};
    pending_.size = box.size();
  } else {
    Box window = pending_.written();
    pending_.window = Box{window.left + stored.left, window.top + stored.top, box.width, box.height};
  }
  size_ = box.size();
  return ok();
}

Status Stage::resize(Size to, const image::Resampling& how) {
  if (to == size_) return ok();
  // A second resize rounds again, and resizing a mirrored picture may round otherwise than mirroring a
  // resized one.
  bool resized = pending_.size != pending_.crop.size() || pending_.window;
  if (resized || pending_.flip || pending_.upside_down) STOKER_TRY(flush());
  pending_.size = to;
  pending_.how = how;
  size_ = to;
  return ok();
}

Status Stage::write(const image::PixelOutput& output) { return run(output); }

}  // namespace stoker::pipeline
