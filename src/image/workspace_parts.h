// SPDX-License-Identifier: Apache-2.0
// What a Workspace holds. Only for the image room.
#pragma once

#include <array>

#include "image/axis.h"
#include "image/buffer.h"
#include "image/jpeg_reader.h"
#include "image/kernels.h"
#include "image/workspace.h"

namespace stoker::image {

struct Workspace::Parts {
  const Kernels* kernels = &image::kernels();
  DecodeNotes notes;
  JpegReader jpeg;
  Buffer picture;   // a decoded picture or region
  Buffer scratch;   // 16-bit gray, rows with a margin
  Buffer strip;     // source rows on their way to the resize
  Buffer resample;  // rows between the two passes
  Buffer table;     // weights in the kernel's form
  Axis columns;
  Axis lines;

  std::array<Buffer*, 5> buffers() { return {&picture, &scratch, &strip, &resample, &table}; }
};

}  // namespace stoker::image
