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
constexpr size_t kMostValueBytes = 128;

bool is_ours(int luma_h, int luma_v) {
  return (luma_h == 1 && luma_v == 1) || (luma_h == 2 && (luma_v == 1 || luma_v == 2));
}

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
  const JpegKernels& kernels = jpeg_kernels_of(workspace.parts().kernels->isa);
  if (!scan.open(data, *frame, kernels)) return {};
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
  size_t in_row = size_t(frame->units_across()) * size_t(scan.blocks());
  uint8_t* row = workspace.parts().scratch.grow((kBlockBytes + kMostValueBytes) * in_row);
  if (row == nullptr) return {};
  alignas(64) int16_t blocks[kMaxBlocks * kBlockStride];
  uint8_t last[kMaxBlocks];
  for (size_t y = 0; y < rows; ++y) {
    uint8_t* mask = row;
    uint8_t* dc = row + 8 * in_row;
    uint8_t* values = dc + 2 * in_row;
    for (int x = 0; x < frame->units_across(); ++x) {
      if (!scan.decode(blocks, last)) return {};
      for (int b = 0; b < scan.blocks(); ++b, mask += 8, dc += 2) {
        const int16_t* block = blocks + b * kBlockStride;
        store_le(mask, last[b] == 0 ? uint64_t{0} : kernels.pack_block(block, &values));
        store_le(dc, block[0]);
      }
    }
    if (!scan.in_bounds()) return {};
    size_t begin = made.bytes.size();
    made.bytes.insert(made.bytes.end(), row, values);
    size_t end = made.bytes.size() - before - made.head;
    if (end > std::numeric_limits<uint32_t>::max()) return {};
    store_le(&made.bytes[before + kEndsAt + 4 * y], uint32_t(end));
    store_le(&made.bytes[before + kEndsAt + 4 * rows + 8 * y], xxh3_64(ByteView(made.bytes).subspan(begin)));
  }
  return made;
}

}  // namespace stoker::image
