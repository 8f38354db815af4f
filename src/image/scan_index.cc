// SPDX-License-Identifier: Apache-2.0
#include "image/scan_index.h"

#include <algorithm>
#include <limits>

#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

constexpr size_t kHeadBytes = 12;   // units across, units down, step
constexpr size_t kPointBytes = 10;  // bits, three DC values
// Between two points: eight units of a usual photograph. Fewer gain less than they cost to keep.
constexpr int kBlocksApart = 48;

int points_in(int units, int step) { return (units + step - 1) / step; }

bool add_point(const ScanState& state, std::vector<uint8_t>& out) {
  if (state.at > std::numeric_limits<uint32_t>::max()) return false;
  size_t at = out.size();
  out.resize(at + kPointBytes);
  store_le(&out[at], uint32_t(state.at));
  for (size_t c = 0; c < 3; ++c) {
    int32_t dc = state.dc[c];
    if (dc != int16_t(dc)) return false;
    store_le(&out[at + 4 + 2 * c], int16_t(dc));
  }
  return true;
}

}  // namespace

std::optional<ScanIndex> ScanIndex::read(ByteView bytes, const JpegFrame& frame) {
  if (bytes.size() < kHeadBytes) return {};
  auto across = load_le<uint32_t>(bytes.data());
  auto down = load_le<uint32_t>(bytes.data() + 4);
  auto step = load_le<uint32_t>(bytes.data() + 8);
  if (across != uint32_t(frame.units_across()) || down != uint32_t(frame.units_down())) return {};
  if (step < 1 || step > across) return {};
  ScanIndex index;
  index.points_ = bytes.data() + kHeadBytes;
  index.step_ = int(step);
  index.in_row_ = points_in(int(across), int(step));
  if (bytes.size() - kHeadBytes != kPointBytes * size_t(index.in_row_) * down) return {};
  return index;
}

ScanIndex::Point ScanIndex::before(int row, int unit) const {
  int number = unit / step_;
  const uint8_t* at = points_ + kPointBytes * (size_t(row) * size_t(in_row_) + size_t(number));
  Point point{number * step_, {}};
  point.state.at = load_le<uint32_t>(at);
  for (int c = 0; c < 3; ++c) point.state.dc[c] = load_le<int16_t>(at + 4 + 2 * c);
  return point;
}

std::optional<std::vector<uint8_t>> make_scan_index(ByteView data, Workspace& workspace) {
  ScanReader& reader = workspace.parts().jpeg.scan();
  auto frame = read_jpeg_frame(data);
  if (!frame || !reader.open(data, *frame, jpeg_kernels_of(workspace.parts().kernels->isa))) return {};
  int across = frame->units_across();
  int down = frame->units_down();
  int step = std::min(across, kBlocksApart / reader.blocks());
  std::vector<uint8_t> out(kHeadBytes);
  store_le(&out[0], uint32_t(across));
  store_le(&out[4], uint32_t(down));
  store_le(&out[8], uint32_t(step));
  out.reserve(kHeadBytes + kPointBytes * size_t(points_in(across, step)) * size_t(down));
  for (int row = 0; row < down; ++row) {
    for (int unit = 0; unit < across; unit += step) {
      if (!add_point(reader.state(), out) || !reader.skip(std::min(step, across - unit))) return {};
    }
  }
  return out;
}

}  // namespace stoker::image
