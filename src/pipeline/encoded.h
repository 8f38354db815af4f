// SPDX-License-Identifier: Apache-2.0
// A stored picture before it is decoded, and how one comes out of a TFRecord. Pure.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace stoker::pipeline {

struct ImageSource;

struct Encoded {
  ByteView picture;
  int64_t label = 0;
  uint64_t offset = 0;  // of the picture in its file
};

// `frame`: a whole record as it is stored, at `offset` of `path`; its checksums are verified. kData: as of
// record_data() and parse_example(), and for a record without the picture, or with a label that is no
// integer.
Result<Encoded> encoded_of_record(ByteView frame, const std::string& path, uint64_t offset,
                                  const ImageSource& source);

}  // namespace stoker::pipeline
