// SPDX-License-Identifier: Apache-2.0
// The memory and decoder state that one thread reuses from picture to picture, so that a steady stream of
// pictures allocates nothing of ours. Confined to one thread at a time. Views that decoding returns lie in it
// and are valid until the next call with the same workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace stoker::image {

// What the last decode saw that is no error.
struct DecodeNotes {
  bool gray16_clipped = false;  // 16-bit gray came out as Pillow converts it: everything over 255 is white
  int jpeg_warnings = 0;        // libjpeg's count of damage that it passed over, as Pillow does
};

// CPU time of the calling thread in calls that decode, crop or resize, and of it what decoding took.
struct PassTimes {
  int64_t whole_ns = 0;
  int64_t decode_ns = 0;
};

class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;

  const DecodeNotes& notes() const;
  // Until told otherwise, adds what decode_resized_crop() and resized_crop() take to `times`; nullptr: to
  // nothing.
  void time_into(PassTimes* times);
  // Bytes held in buffers of ours; libjpeg and libpng free theirs after each picture.
  size_t bytes() const;
  // Gives back what is held if it is more than `keep` bytes. Views into the workspace end.
  void trim(size_t keep);

  struct Parts;  // for the image room itself
  Parts& parts() { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace stoker::image
