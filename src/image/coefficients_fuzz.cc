// SPDX-License-Identifier: Apache-2.0
// The input is a patch of real coefficients with all hashes made right again: whatever they say, decoding
// them stays in bounds; and as they were made they give the JPEG's pixels. Or it is the whole of a head and
// its rows.
#include "image/libjpeg_oracle.h"
#include "image/test_coefficients.h"
#include "image/test_pictures.h"
#include "image/workspace.h"

using namespace stoker;
using namespace stoker::image;

namespace {

struct Sample {
  std::vector<uint8_t> data;
  MadeCoefficients made;
};

std::vector<Sample> make_samples() {
  Workspace workspace;
  std::vector<Sample> samples;
  for (auto& [size, data] : six_jpegs()) {
    auto made = make_coefficients(data, 0, workspace);
    CHECK(made.has_value());
    samples.push_back({std::move(data), std::move(*made)});
  }
  return samples;
}

void decode(MadeCoefficients made, const uint8_t* where, const Sample* sample) {
  bool changed = sample == nullptr || made.bytes != sample->made.bytes;
  auto kept = Coefficients::read(ByteView(made.bytes).first(made.head));
  if (!kept) return;
  Size size = kept->frame().size;
  if (int64_t{size.width} * size.height > 1 << 18) return;
  Box box;
  box.left = where[0] % size.width;
  box.top = where[1] % size.height;
  box.width = 1 + where[2] % (size.width - box.left);
  box.height = 1 + where[3] % (size.height - box.top);
  rehash(&made);
  InMemoryCoefficients memory(std::move(made));
  auto scalar = kept_region(memory, box, Isa::kScalar);
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (kernels_of(isa) != nullptr) CHECK(kept_region(memory, box, isa) == scalar);
  }
  if (!changed) CHECK(scalar && scalar == baseline_region(sample->data, box, Isa::kScalar));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Sample> samples = make_samples();
  if (size < 6) return 0;
  if (data[0] >= 128) {
    MadeCoefficients any;
    any.bytes.assign(data + 6, data + size);
    any.head = std::min<size_t>(any.bytes.size(), 204 + 12 * size_t(data[5]));
    decode(std::move(any), data + 1, nullptr);
    return 0;
  }
  const Sample& sample = samples[data[0] % samples.size()];
  MadeCoefficients made = sample.made;
  for (size_t at = 6; at + 4 <= size; at += 4) {
    made.bytes[(load_le<uint16_t>(data + at) | size_t(data[at + 2]) << 16) % made.bytes.size()] =
        data[at + 3];
  }
  decode(std::move(made), data + 1, &sample);
  return 0;
}
