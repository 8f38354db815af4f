// SPDX-License-Identifier: Apache-2.0
// The input is a patch of a real index: pairs of a place and a byte, then how many bytes there are. Whatever
// it says, decoding with it stays in bounds; and an index as it was made gives the pixels without it.
#include <cstring>

#include "image/libjpeg_oracle.h"
#include "image/scan_index.h"
#include "image/test_pictures.h"
#include "image/workspace.h"

using namespace stoker;
using namespace stoker::image;

namespace {

struct Sample {
  Size size;
  std::vector<uint8_t> data;
  std::vector<uint8_t> index;
};

std::vector<Sample> make_samples() {
  Workspace workspace;
  std::vector<Sample> samples;
  for (auto& [size, data] : six_jpegs()) {
    auto index = make_scan_index(data, workspace);
    CHECK(index.has_value());
    samples.push_back({size, std::move(data), std::move(*index)});
  }
  return samples;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Sample> samples = make_samples();
  if (size < 6) return 0;
  const Sample& sample = samples[data[0] % samples.size()];
  Box box;
  box.left = data[1] % sample.size.width;
  box.top = data[2] % sample.size.height;
  box.width = 1 + data[3] % (sample.size.width - box.left);
  box.height = 1 + data[4] % (sample.size.height - box.top);
  std::vector<uint8_t> index = sample.index;
  for (size_t at = 6; at + 3 <= size; at += 3)
    index[load_le<uint16_t>(data + at) % index.size()] = data[at + 2];
  if (data[5] != 0) index.resize(index.size() - std::min<size_t>(data[5], index.size()));
  auto region = baseline_region(sample.data, box, Isa::kAvx2, index);
  if (index == sample.index) CHECK(region == baseline_region(sample.data, box, Isa::kAvx2));
  return 0;
}
