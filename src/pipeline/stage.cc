// SPDX-License-Identifier: Apache-2.0
#include "pipeline/stage.h"

namespace stoker::pipeline {

using image::Box;
using image::Size;

Stage::Stage(ByteView data, Size size, image::PassOrder order, image::Workspace& workspace,
             std::vector<uint8_t> (&spare)[2])
    : data_(data), workspace_(workspace), spare_(spare) {
  pending_.order = order;
  begin(size);
}

void Stage::begin(Size size) {
  size_ = size;
  pending_.crop = {0, 0, size.width, size.height};
  pending_.size = size;
  pending_.window.reset();
  pending_.flip = false;
}

Status Stage::run(const image::PixelOutput& output) {
  if (decoded_.data) return image::resized_crop(decoded_, pending_, output, workspace_);
  return image::decode_resized_crop(data_, pending_, output, workspace_);
}

Status Stage::into_spare(Size size, image::MutableImageView& out) {
  uint64_t pixels = static_cast<uint64_t>(size.width) * static_cast<uint64_t>(size.height);
  if (pixels > static_cast<uint64_t>(image::kMaxPixels)) {
    Error error{Code::kData, "an op would make a picture of " + std::to_string(pixels) + " pixels", {}};
    error.fault = DataFault{"too_large", "", -1};
    return error;
  }
  std::vector<uint8_t>& buffer = spare_[next_spare_];
  next_spare_ = 1 - next_spare_;  // the other one may hold what is read now
  if (buffer.size() < 3 * pixels) buffer.resize(3 * pixels);
  out = image::packed(buffer.data(), size);
  return ok();
}

Status Stage::flush() {
  image::MutableImageView out;
  STOKER_TRY(into_spare(pending_.written().size(), out));
  STOKER_TRY(run(image::HwcBytes{out.data}));
  decoded_ = out;
  begin(out.size());
  return ok();
}

Status Stage::crop(const Box& box) {
  if (!image::inside(box, size_)) {
    STOKER_TRY(flush());
    image::MutableImageView out;
    STOKER_TRY(into_spare(box.size(), out));
    image::crop(decoded_, box, out);
    decoded_ = out;
    begin(out.size());
    return ok();
  }
  Box before_flip = box;
  if (pending_.flip) before_flip.left = size_.width - box.left - box.width;
  if (pending_.size == pending_.crop.size() && !pending_.window) {
    // Not resized: a crop of a crop is a crop.
    pending_.crop = {pending_.crop.left + before_flip.left, pending_.crop.top + before_flip.top, box.width,
                     box.height};
    pending_.size = box.size();
  } else {
    Box window = pending_.written();
    pending_.window =
        Box{window.left + before_flip.left, window.top + before_flip.top, box.width, box.height};
  }
  size_ = box.size();
  return ok();
}

Status Stage::resize(Size to) {
  if (to == size_) return ok();
  // A second resize rounds again, and resizing a mirrored picture may round otherwise than mirroring a
  // resized one.
  bool resized = pending_.size != pending_.crop.size() || pending_.window;
  if (resized || pending_.flip) STOKER_TRY(flush());
  pending_.size = to;
  size_ = to;
  return ok();
}

Status Stage::write(const image::PixelOutput& output) { return run(output); }

}  // namespace stoker::pipeline
