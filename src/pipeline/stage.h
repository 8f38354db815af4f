// SPDX-License-Identifier: Apache-2.0
// Stage: the ops of one sample on its picture, the geometric ones folded into as few passes over pixels as
// give the same bytes. Each op changes a pending image::ResizedCrop (crop, resize, window, flips, which the
// image room does in one pass, decoding only the region); an op that would not commute exactly, or that needs
// the pixels, makes the pending one run into a buffer first. Confined.
#pragma once

#include <cstdint>
#include <vector>

#include "image/border.h"
#include "image/decode.h"
#include "image/resized_crop.h"

namespace stoker::pipeline {

class Stage {
 public:
  // `stored` is the encoded picture and `size` its header's; `spare` are two buffers that flushes may use.
  Stage(const image::StoredPicture& stored, image::Size size, image::PassOrder order,
        image::Workspace& workspace, std::vector<uint8_t> (&spare)[2]);
  // Of a picture in memory, which is read only.
  Stage(const image::ImageView& picture, image::PassOrder order, image::Workspace& workspace,
        std::vector<uint8_t> (&spare)[2]);

  image::Size size() const { return size_; }  // of the picture as it is after the ops so far
  Status crop(const image::Box& box, const image::Border& border = {});
  Status resize(image::Size to, const image::Resampling& how = {});
  void mirror(bool vertical) { (vertical ? pending_.upside_down : pending_.flip) ^= true; }

  // The picture in memory, everything so far done to it; changing it in place is an op.
  Result<image::MutableImageView> pixels();
  // The same, to be read.
  Result<image::ImageView> view();
  // The same with a second picture of size `to` beside it, whose pixels are then the picture's.
  struct Copy {
    image::ImageView from;
    image::MutableImageView to;
  };
  Result<Copy> copy(image::Size to);

  image::Workspace& workspace() { return workspace_; }
  Status write(const image::PixelOutput& output);  // once, at the end

 private:
  void begin(image::Size size);
  bool idle() const;  // nothing is pending
  Status run(const image::PixelOutput& output);
  Status flush();
  void read_from(const image::MutableImageView& buffer);
  Result<image::MutableImageView> spare(image::Size size);

  image::StoredPicture stored_;     // the picture so far: encoded, or
  image::ImageView decoded_;        // in memory, and after a flush
  image::MutableImageView buffer_;  // in one of the spare buffers; else without data
  image::Size size_;
  image::ResizedCrop pending_;
  image::Workspace& workspace_;
  std::vector<uint8_t> (&spare_)[2];
  int next_spare_ = 0;
};

}  // namespace stoker::pipeline
