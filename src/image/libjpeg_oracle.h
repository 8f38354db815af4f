// SPDX-License-Identifier: Apache-2.0
// What libjpeg alone makes of a JPEG, and our decoder alone, for tests and fuzzers. Not part of the product.
#pragma once

#include <cstring>
#include <optional>
#include <vector>

#include "base/result.h"
#include "image/baseline_reader.h"
#include "image/decode.h"
#include "image/libjpeg_reader.h"

namespace stoker::image {

// The region's pixels without gaps, or libjpeg's verdict.
inline Result<std::vector<uint8_t>> libjpeg_region(ByteView data, const Box& region) {
  LibjpegReader reader;
  STOKER_TRY(reader.open(data, region));
  size_t bytes = 3 * size_t(region.width);
  std::vector<uint8_t> out(bytes * size_t(region.height));
  std::vector<uint8_t> row(reader.row_bytes());
  for (int y = 0; y < region.height; ++y) {
    uint8_t* to = row.data();
    STOKER_ASSIGN(int got, reader.read(&to, 1));
    if (got != 1) return internal("libjpeg gave no row");
    std::memcpy(&out[size_t(y) * bytes], to + reader.lead_bytes(), bytes);
  }
  STOKER_TRY(reader.finish(row.data()));
  return out;
}

// The rows of an open reader without gaps; nothing if it finds damage on the way.
inline std::optional<std::vector<uint8_t>> rows_of(BaselineReader& reader, const Box& region) {
  size_t bytes = 3 * size_t(region.width);
  std::vector<uint8_t> out(bytes * size_t(region.height));
  std::vector<uint8_t> row(reader.row_bytes());
  for (int y = 0; y < region.height; ++y) {
    uint8_t* to = row.data();
    if (reader.read(&to, 1) != 1) return {};
    std::memcpy(&out[size_t(y) * bytes], to + reader.lead_bytes(), bytes);
  }
  return out;
}

// The region's pixels by our own decoder alone; nothing if it leaves them to libjpeg.
inline std::optional<std::vector<uint8_t>> baseline_region(ByteView data, const Box& region, Isa isa,
                                                           ByteView index = {}) {
  BaselineReader reader;
  if (!reader.open(data, region, isa, index)) return {};
  return rows_of(reader, region);
}

// True if `ours` says the same as libjpeg: the same error, or the same pixels.
inline bool agrees(const Result<ImageView>& ours, const Result<std::vector<uint8_t>>& libjpeg) {
  if (ours.ok() != libjpeg.ok()) return false;
  if (!ours.ok()) {
    return ours.error().message == libjpeg.error().message &&
           ours.error().fault.has_value() == libjpeg.error().fault.has_value() &&
           (!ours.error().fault || (ours.error().fault->kind == libjpeg.error().fault->kind &&
                                    ours.error().fault->offset == libjpeg.error().fault->offset));
  }
  size_t bytes = 3 * size_t(ours->width);
  if (libjpeg->size() != bytes * size_t(ours->height)) return false;
  for (int y = 0; y < ours->height; ++y) {
    if (std::memcmp(ours->row(y), libjpeg->data() + size_t(y) * bytes, bytes) != 0) return false;
  }
  return true;
}

}  // namespace stoker::image
