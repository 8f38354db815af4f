// SPDX-License-Identifier: Apache-2.0
// Stage: the geometric ops of one sample folded into as few passes over pixels as give the same bytes. Each
// op changes a pending image::ResizedCrop (crop, resize, window, flip, which the image room does in one pass,
// decoding only the region); an op that would not commute exactly makes the pending one run into a buffer
// first. Confined.
#pragma once

#include <cstdint>
#include <vector>

#include "image/decode.h"
#include "image/resized_crop.h"

namespace stoker::pipeline {

class Stage {
 public:
  // `data` is the encoded picture and `size` its header's; `spare` are two buffers that flushes may use.
  Stage(ByteView data, image::Size size, image::PassOrder order, image::Workspace& workspace,
        std::vector<uint8_t> (&spare)[2]);

  image::Size size() const { return size_; }  // of the picture as it is after the ops so far
  Status crop(const image::Box& box);         // black where it lies outside
  Status resize(image::Size to);
  void flip() { pending_.flip = !pending_.flip; }
  Status write(const image::PixelOutput& output);  // once, at the end

 private:
  void begin(image::Size size);
  Status run(const image::PixelOutput& output);
  Status flush();
  Status into_spare(image::Size size, image::MutableImageView& out);

  ByteView data_;             // the picture so far: encoded, or, after a flush,
  image::ImageView decoded_;  // in one of the spare buffers
  image::Size size_;
  image::ResizedCrop pending_;
  image::Workspace& workspace_;
  std::vector<uint8_t> (&spare_)[2];
  int next_spare_ = 0;
};

}  // namespace stoker::pipeline
