// SPDX-License-Identifier: Apache-2.0
// A stored picture, and what may be known of it that saves work in decoding it. A value: views of memory that
// must stay until it is decoded.
#pragma once

#include <concepts>

#include "base/bytes.h"

namespace stoker::image {

struct StoredPicture {
  template <std::convertible_to<ByteView> File>
  StoredPicture(const File& file, ByteView index = {}) : data(file), scan_index(index) {}

  ByteView data;        // the file
  ByteView scan_index;  // of a JPEG, see ScanIndex; empty if there is none
};

}  // namespace stoker::image
