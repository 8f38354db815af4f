// SPDX-License-Identifier: Apache-2.0
// What a Workspace holds. Only for the image room.
#pragma once

#include <array>

#include "base/clock.h"
#include "image/axis.h"
#include "image/buffer.h"
#include "image/jpeg_reader.h"
#include "image/kernels.h"
#include "image/workspace.h"

namespace stoker::image {

struct Workspace::Parts {
  const Kernels* kernels = &image::kernels();
  DecodeNotes notes;
  PassTimes* times = nullptr;
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

// Adds the time of its life to one of the workspace's figures, where somebody wants them.
class TimedPart {
 public:
  TimedPart(const Workspace::Parts& parts, int64_t PassTimes::*what)
      : to_(parts.times != nullptr ? &(parts.times->*what) : nullptr),
        begun_(to_ != nullptr ? thread_cpu_ns() : 0) {}
  ~TimedPart() {
    if (to_ != nullptr) *to_ += thread_cpu_ns() - begun_;
  }
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  int64_t* to_;
  int64_t begun_;
};

}  // namespace stoker::image
