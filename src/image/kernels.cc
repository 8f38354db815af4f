// SPDX-License-Identifier: Apache-2.0
#include "image/kernels.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace stoker::image {
namespace {

uint8_t rounded(int32_t sum) {
  int32_t value = (sum + (1 << (kWeightBits - 1))) >> kWeightBits;
  return uint8_t(std::clamp(value, 0, 255));
}

size_t table_bytes(const AxisView&) { return 0; }
void make_table(const AxisView&, uint8_t*) {}

void horizontal(const AxisView& axis, const uint8_t*, const uint8_t* const* in, uint8_t* const* out,
                int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int x = 0; x < axis.size; ++x) {
      const uint8_t* pixel = in[r] + 3 * axis.first[x];
      const int32_t* weights = axis.weights + ptrdiff_t{x} * axis.taps_padded;
      int32_t sum[3] = {0, 0, 0};
      for (int t = 0; t < axis.count[x]; ++t, pixel += 3) {
        for (int c = 0; c < 3; ++c) sum[c] += pixel[c] * weights[t];
      }
      for (int c = 0; c < 3; ++c) out[r][3 * x + c] = rounded(sum[c]);
    }
  }
}

void vertical(const uint8_t* const* in, const int32_t* weights, int count, size_t bytes, uint8_t* out) {
  for (size_t i = 0; i < bytes; ++i) {
    int32_t sum = 0;
    for (int t = 0; t < count; ++t) sum += in[t][i] * weights[t];
    out[i] = rounded(sum);
  }
}

void to_floats(const uint8_t* in, int width, bool mirror, const FloatMap& map, float* const* out) {
  for (int c = 0; c < 3; ++c) {
    const float* entries = map.entries[c];
    for (int x = 0; x < width; ++x) out[c][mirror ? width - 1 - x : x] = entries[in[3 * x + c]];
  }
}

Isa allowed() {
  const char* name = std::getenv("STOKER_ISA");
  std::string_view cap = name == nullptr ? "" : name;
  if (cap == "scalar") return Isa::kScalar;
  if (cap == "avx2") return Isa::kAvx2;
  return Isa::kAvx512;
}

const Kernels& best() {
  for (Isa isa : {Isa::kAvx512, Isa::kAvx2}) {
    if (isa > allowed()) continue;
    if (const Kernels* kernels = kernels_of(isa)) return *kernels;
  }
  return kScalarKernels;
}

}  // namespace

void to_planes_scalar(const uint8_t* in, int width, bool mirror, uint8_t* const* out) {
  for (int c = 0; c < 3; ++c) {
    for (int x = 0; x < width; ++x) out[c][mirror ? width - 1 - x : x] = in[3 * x + c];
  }
}

void mirror_scalar(const uint8_t* in, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < 3; ++c) out[3 * (width - 1 - x) + c] = in[3 * x + c];
  }
}

const Kernels kScalarKernels = {Isa::kScalar, table_bytes, make_table,       horizontal,
                                vertical,     to_floats,   to_planes_scalar, mirror_scalar};

const Kernels& kernels() {
  static const Kernels& chosen = best();
  return chosen;
}

const Kernels* kernels_of(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kScalar:
      return &kScalarKernels;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")
                 ? &kAvx2Kernels
                 : nullptr;
    case Isa::kAvx512: {
      bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                 __builtin_cpu_supports("avx512vnni");
      return has ? &kAvx512Kernels : nullptr;
    }
  }
  return nullptr;
}

}  // namespace stoker::image
