// SPDX-License-Identifier: Apache-2.0
// A baseline JPEG's quantised coefficients in a form that needs no entropy decoding and may be entered at any
// row of units: without loss, about twice the JPEG's bytes. docs/formats/picture-store.md is the format: a
// head, then rows, each with a hash of its own. Made only of a scan that is sound to its last unit. Reading
// is safe whatever the bytes are. Pure.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "image/jpeg_frame.h"
#include "image/jpeg_kernels.h"
#include "image/workspace.h"

namespace stoker::image {

inline constexpr size_t kCoefficientSlack = 128;  // bytes behind a row that expanding it may read

// A head.
class Coefficients {
 public:
  // Nothing if the bytes are no head. A view.
  static std::optional<Coefficients> read(ByteView head);

  // Without Huffman tables and scan.
  const JpegFrame& frame() const { return frame_; }
  int rows() const { return frame_.units_down(); }
  size_t blocks_in_row() const { return size_t(frame_.units_across()) * size_t(frame_.luma_blocks() + 2); }
  // Where a row's bytes are, counted from the first row's.
  size_t begin(int row) const { return row == 0 ? 0 : end(row - 1); }
  size_t end(int row) const { return load_le<uint32_t>(ends_ + 4 * size_t(row)); }
  // Whether they are those that the head was made for.
  bool is_sound(int row, ByteView bytes) const;

 private:
  JpegFrame frame_;
  const uint8_t* ends_ = nullptr;
  const uint8_t* hashes_ = nullptr;
};

// The blocks of one row, one after the other.
class CoefficientRow {
 public:
  // `bytes` with kCoefficientSlack readable ones behind. False if they are no row of so many blocks.
  bool open(ByteView bytes, size_t blocks, const JpegKernels& kernels);
  void skip(size_t blocks);
  // As decode_unit().
  void expand(int blocks, int16_t* out, uint8_t* last) {
    kernels_->expand_unit(masks_, dcs_, &values_, blocks, out, last);
    masks_ += 8 * size_t(blocks);
    dcs_ += 2 * size_t(blocks);
  }

 private:
  const JpegKernels* kernels_ = nullptr;
  const uint8_t* masks_ = nullptr;
  const uint8_t* dcs_ = nullptr;
  const uint8_t* values_ = nullptr;
};

struct MadeCoefficients {
  size_t head = 0;             // bytes
  std::vector<uint8_t> bytes;  // head and rows
};
// Nothing if the picture is not one for our decoder, or not sound. `before`: so many bytes are left free in
// front of the head.
std::optional<MadeCoefficients> make_coefficients(ByteView data, size_t before, Workspace& workspace);

}  // namespace stoker::image
