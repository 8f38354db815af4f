// SPDX-License-Identifier: Apache-2.0
#include "image/coefficients.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "image/decode.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

constexpr size_t kStepsAt = 12;  // behind width, height, luma's sampling
constexpr size_t kEndsAt = kStepsAt + 3 * 64;
constexpr size_t kRowBytes = 4 + 8;    // of the head: where it ends, its hash
constexpr size_t kBlockBytes = 8 + 2;  // of a row, besides values: mask, DC

bool is_ours(int luma_h, int luma_v) {
  return (luma_h == 1 && luma_v == 1) || (luma_h == 2 && (luma_v == 1 || luma_v == 2));
}

// A row as it is being made.
struct Row {
  std::vector<uint8_t> masks, dcs, values;

  void clear() {
    masks.clear();
    dcs.clear();
    values.clear();
  }
  void add(const int16_t* block, uint8_t last) {
    size_t at = values.size();
    values.resize(at + 128);
    uint64_t mask = last == 0 ? 0 : narrow(block, &at);
    append(masks, mask);
    append(dcs, block[0]);
    values.resize(at);
  }

 private:
  template <typename T>
  static void append(std::vector<uint8_t>& to, T value) {
    to.resize(to.size() + sizeof value);
    store_le(&to[to.size() - sizeof value], value);
  }
  // Values of one byte each; `at` moves behind them.
  uint64_t narrow(const int16_t* block, size_t* at) {
    uint64_t mask = 0;
    bool fits = true;
    uint8_t* to = &values[*at];
    for (unsigned i = 1; i < 64; ++i) {
      bool there = block[i] != 0;
      *to = uint8_t(block[i]);
      to += there;
      mask |= uint64_t{there} << i;
      fits &= block[i] == int8_t(block[i]);
    }
    if (!fits) return wide(block, mask, at);
    *at = size_t(to - values.data());
    return mask;
  }
  uint64_t wide(const int16_t* block, uint64_t mask, size_t* at) {
    for (unsigned i = 1; i < 64; ++i) {
      if (block[i] == 0) continue;
      store_le(&values[*at], block[i]);
      *at += 2;
    }
    return mask | 1;  // the place of the DC value says that values are wide
  }
};

}  // namespace

std::optional<Coefficients> Coefficients::read(ByteView head) {
  if (head.size() < kEndsAt) return {};
  const uint8_t* at = head.data();
  Coefficients read;
  JpegFrame& frame = read.frame_;
  auto width = load_le<uint32_t>(at);
  auto height = load_le<uint32_t>(at + 4);
  constexpr uint32_t kMaxSide = 65500;
  if (width < 1 || width > kMaxSide || height < 1 || height > kMaxSide) return {};
  frame.size = {int(width), int(height)};
  if (int64_t{width} * height > kMaxPixels) return {};
  frame.luma_h = at[8];
  frame.luma_v = at[9];
  if (!is_ours(frame.luma_h, frame.luma_v)) return {};
  for (size_t c = 0; c < 3; ++c) frame.components[c].quant = at + kStepsAt + 64 * c;
  auto rows = size_t(read.rows());
  if (head.size() != kEndsAt + kRowBytes * rows) return {};
  read.ends_ = at + kEndsAt;
  read.hashes_ = read.ends_ + 4 * rows;
  for (int row = 0; row < int(rows); ++row) {
    if (read.end(row) < read.begin(row)) return {};
  }
  return read;
}

bool Coefficients::is_sound(int row, ByteView bytes) const {
  return xxh3_64(bytes) == load_le<uint64_t>(hashes_ + 8 * size_t(row));
}

bool CoefficientRow::open(ByteView bytes, size_t blocks, const JpegKernels& kernels) {
  if (bytes.size() < kBlockBytes * blocks) return false;
  kernels_ = &kernels;
  masks_ = bytes.data();
  dcs_ = masks_ + 8 * blocks;
  values_ = dcs_ + 2 * blocks;
  return kernels.value_bytes(masks_, blocks) == bytes.size() - kBlockBytes * blocks;
}

void CoefficientRow::skip(size_t blocks) {
  values_ += kernels_->value_bytes(masks_, blocks);
  masks_ += 8 * blocks;
  dcs_ += 2 * blocks;
}

std::optional<MadeCoefficients> make_coefficients(ByteView data, size_t before, Workspace& workspace) {
  ScanReader& scan = workspace.parts().jpeg.scan();
  auto frame = read_jpeg_frame(data);
  if (!frame || int64_t{frame->size.width} * frame->size.height > kMaxPixels) return {};
  if (!scan.open(data, *frame, jpeg_kernels_of(workspace.parts().kernels->isa))) return {};
  auto rows = size_t(frame->units_down());
  MadeCoefficients made;
  made.head = kEndsAt + kRowBytes * rows;
  made.bytes.reserve(before + made.head + 5 * data.size() / 2);
  made.bytes.resize(before + made.head);
  store_le(&made.bytes[before], uint32_t(frame->size.width));
  store_le(&made.bytes[before + 4], uint32_t(frame->size.height));
  made.bytes[before + 8] = uint8_t(frame->luma_h);
  made.bytes[before + 9] = uint8_t(frame->luma_v);
  for (size_t c = 0; c < 3; ++c) {
    std::copy_n(frame->components[c].quant, 64, &made.bytes[before + kStepsAt + 64 * c]);
  }
  Row row;
  alignas(64) int16_t blocks[kMaxBlocks * kBlockStride];
  uint8_t last[kMaxBlocks];
  for (size_t y = 0; y < rows; ++y) {
    row.clear();
    for (int x = 0; x < frame->units_across(); ++x) {
      if (!scan.decode(blocks, last)) return {};
      for (int b = 0; b < scan.blocks(); ++b) row.add(blocks + b * kBlockStride, last[b]);
    }
    if (!scan.in_bounds()) return {};
    size_t begin = made.bytes.size();
    for (const auto* part : {&row.masks, &row.dcs, &row.values}) {
      made.bytes.insert(made.bytes.end(), part->begin(), part->end());
    }
    size_t end = made.bytes.size() - before - made.head;
    if (end > std::numeric_limits<uint32_t>::max()) return {};
    store_le(&made.bytes[before + kEndsAt + 4 * y], uint32_t(end));
    store_le(&made.bytes[before + kEndsAt + 4 * rows + 8 * y], xxh3_64(ByteView(made.bytes).subspan(begin)));
  }
  return made;
}

}  // namespace stoker::image
