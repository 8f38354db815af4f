// SPDX-License-Identifier: Apache-2.0
// ScanIndex: states of a baseline JPEG's scan (ScanState) every few units, from which decoding may begin.
// Made only of a scan that is sound to its last unit, so that with it a region is decoded just as without.
// Its bytes are in docs/formats/picture-store.md; whatever they are, reading them is safe, and what is made
// of wrong ones is wrong pixels at worst: the store's checksums stand before. Pure.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "image/jpeg_frame.h"
#include "image/scan.h"
#include "image/workspace.h"

namespace stoker::image {

class ScanIndex {
 public:
  // A view of `bytes`; nothing if they are no index of such a picture.
  static std::optional<ScanIndex> read(ByteView bytes, const JpegFrame& frame);

  struct Point {
    int unit = 0;     // of the row
    ScanState state;  // before it
  };
  // The last one at or before that unit. `row` and `unit` are of the picture.
  Point before(int row, int unit) const;

 private:
  const uint8_t* points_ = nullptr;
  int step_ = 1;
  int in_row_ = 0;
};

// Nothing if the picture is not one for our decoder, not sound, or its scan over 512 MiB.
std::optional<std::vector<uint8_t>> make_scan_index(ByteView data, Workspace& workspace);

}  // namespace stoker::image
