// SPDX-License-Identifier: Apache-2.0
// Kept coefficients in memory, for tests, fuzzers and the probe. Not part of the product.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "image/coefficients.h"
#include "image/libjpeg_oracle.h"

namespace stoker::image {

// Each read gives a copy of its own, so that the sanitizer's build sees a byte too far.
class InMemoryCoefficients final : public KeptCoefficients {
 public:
  explicit InMemoryCoefficients(MadeCoefficients made) : made_(std::move(made)) {}
  ByteView head() const override { return ByteView(made_.bytes).first(made_.head); }
  const uint8_t* read(size_t from, size_t to) override {
    ByteView rows = ByteView(made_.bytes).subspan(made_.head);
    if (from > to || to > rows.size()) return nullptr;
    read_.assign(rows.begin() + ptrdiff_t(from), rows.begin() + ptrdiff_t(to));
    read_.resize(to - from + kCoefficientSlack);
    read_.shrink_to_fit();
    return read_.data();
  }
  const MadeCoefficients& made() const { return made_; }

  // Whether a block's values take two bytes each.
  bool has_wide() const {
    auto kept = Coefficients::read(head());
    for (int row = 0; row < kept->rows(); ++row) {
      for (size_t b = 0; b < kept->blocks_in_row(); ++b) {
        if ((made_.bytes[made_.head + kept->begin(row) + 8 * b] & 1) != 0) return true;
      }
    }
    return false;
  }

 private:
  MadeCoefficients made_;
  std::vector<uint8_t> read_;
};

// Makes the hashes of rows right again, as somebody would who means harm.
inline void rehash(MadeCoefficients* made) {
  auto kept = Coefficients::read(ByteView(made->bytes).first(made->head));
  if (!kept) return;
  size_t rows = size_t(kept->rows());
  for (size_t row = 0; row < rows; ++row) {
    size_t begin = made->head + kept->begin(int(row)), end = made->head + kept->end(int(row));
    if (end > made->bytes.size()) return;
    store_le(&made->bytes[made->head - 8 * (rows - row)],
             xxh3_64(ByteView(made->bytes).subspan(begin, end - begin)));
  }
}

// The region's pixels; nothing if what is kept is seen to be damaged.
inline std::optional<std::vector<uint8_t>> kept_region(KeptCoefficients& kept, const Box& region, Isa isa) {
  BaselineReader reader;
  if (!reader.open(kept, region, isa)) return {};
  return rows_of(reader, region);
}

}  // namespace stoker::image
