// SPDX-License-Identifier: Apache-2.0
// A stored picture, how it is to be read, and what may be known of it that saves work in decoding it. A
// value: views of memory that must stay until it is decoded.
#pragma once

#include <concepts>

#include "base/bytes.h"

namespace stoker::image {

// How 16-bit gray becomes 8 bits: as Pillow converts it, everything over 255 white; or by each value's high
// byte, as 16-bit colours do.
enum class Gray16 { kClip, kScale };

// The coefficients of a JPEG (coefficients.h), wherever they are kept.
class KeptCoefficients {
 public:
  virtual ~KeptCoefficients() = default;
  virtual ByteView head() const = 0;
  // Bytes [from, to) of the rows, with kCoefficientSlack readable ones behind; they stay until the next call.
  // nullptr if they cannot be had.
  virtual const uint8_t* read(size_t from, size_t to) = 0;
};

struct StoredPicture {
  template <std::convertible_to<ByteView> File>
  StoredPicture(const File& file, ByteView index = {}) : data(file), scan_index(index) {}
  explicit StoredPicture(KeptCoefficients& kept) : coefficients(&kept) {}

  ByteView data;                             // the file
  ByteView scan_index;                       // of a JPEG, see ScanIndex; empty if there is none
  KeptCoefficients* coefficients = nullptr;  // in the place of the file, which is then not needed
  Gray16 gray16 = Gray16::kClip;
};

}  // namespace stoker::image
