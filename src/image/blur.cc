// SPDX-License-Identifier: Apache-2.0
#include "image/blur.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fixed_math.h"
#include "image/blur_kernels.h"
#include "image/border.h"
#include "image/fault.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    float sum = weights[0] * in[i];
    for (int t = 1; t <= radius; ++t) sum = std::fma(weights[t], in[i - t * step] + in[i + t * step], sum);
    out[i] = sum;
  }
}

void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* const* out) {
  for (int k = 0; k < 2; ++k) {
    const float* const* middle = rows + radius + k;
    for (ptrdiff_t i = 0; i < count; ++i) {
      float sum = weights[0] * middle[0][i];
      for (int t = 1; t <= radius; ++t) sum = std::fma(weights[t], middle[-t][i] + middle[t][i], sum);
      out[k][i] = sum;
    }
  }
}

void to_floats(const uint8_t* in, ptrdiff_t count, float* out) {
  for (ptrdiff_t i = 0; i < count; ++i) out[i] = in[i];
}

void to_bytes(const float* in, ptrdiff_t count, uint8_t* out) {
  for (ptrdiff_t i = 0; i < count; ++i) out[i] = uint8_t(std::clamp(std::nearbyint(in[i]), 0.0F, 255.0F));
}

// What the blur of one picture needs: a row with its reflected ends, the rows between the passes, and two
// that are finished.
struct Memory {
  float* padded;  // points at the row's first sample
  float* ring;
  ptrdiff_t stride;
  int slots;
  float* finished[2];
  float* row(int y) const { return ring + (y % slots) * stride; }
};

// `step` floats a pixel.
Result<Memory> take_memory(Size size, int step, const GaussianKernel& kernel, Workspace& workspace) {
  ptrdiff_t count = ptrdiff_t{size.width} * step;
  auto aligned = [](ptrdiff_t floats) { return ptrdiff_t(round_up(size_t(floats), 16)); };
  ptrdiff_t margin = aligned(ptrdiff_t{kernel.across.radius} * step);
  Memory memory;
  memory.stride = aligned(count + kBlurSlack);
  memory.slots = 2 * kernel.down.radius + 2;
  size_t floats = size_t(2 * margin + (memory.slots + 4) * memory.stride);
  auto* at = reinterpret_cast<float*>(workspace.parts().resample.grow(floats * sizeof(float)));
  if (at == nullptr) return no_memory(floats * sizeof(float));
  memory.padded = at + margin;
  memory.ring = at + 2 * margin + 2 * memory.stride;
  memory.finished[0] = memory.ring + memory.slots * memory.stride;
  memory.finished[1] = memory.finished[0] + memory.stride;
  return memory;
}

void reflect_ends(float* row, int width, int step, int radius) {
  for (int t = 1; t <= radius; ++t) {
    std::memcpy(row - t * step, row + t * step, sizeof(float) * size_t(step));
    std::memcpy(row + (width - 1 + t) * step, row + (width - 1 - t) * step, sizeof(float) * size_t(step));
  }
}

// `load(y, row)` fetches a row as floats, `place(y)` says where a finished row goes (null: to memory of
// ours), `keep(y, row)` takes it.
template <typename Load, typename Place, typename Keep>
Status blur(Size size, int step, const GaussianKernel& kernel, Workspace& workspace, Load load, Place place,
            Keep keep) {
  int radius = kernel.down.radius;
  if (size.width <= kernel.across.radius || size.height <= radius)
    return invalid("gaussian_blur: the picture is too small for the kernel's reflection at its edge");
  STOKER_ASSIGN(Memory memory, take_memory(size, step, kernel, workspace));
  const BlurKernels& kernels = blur_kernels(workspace.parts().kernels->isa);
  ptrdiff_t count = ptrdiff_t{size.width} * step;
  const float* rows[2 * kMaxBlurRadius + 2];
  int have = 0;
  for (int y = 0; y < size.height; y += 2) {
    for (; have <= std::min(y + 1 + radius, size.height - 1); ++have) {
      load(have, memory.padded);
      reflect_ends(memory.padded, size.width, step, kernel.across.radius);
      kernels.across(memory.padded, count, step, kernel.across.at, kernel.across.radius, memory.row(have));
    }
    for (int t = 0; t < 2 * radius + 2; ++t)
      rows[t] = memory.row(border_index(Border::kReflect, y - radius + t, size.height));
    float* out[2] = {memory.finished[0], memory.finished[1]};
    int finished = std::min(2, size.height - y);
    for (int k = 0; k < finished; ++k)
      if (float* there = place(y + k)) out[k] = there;
    kernels.down(rows, count, kernel.down.at, radius, out);
    for (int k = 0; k < finished; ++k) keep(y + k, out[k]);
  }
  return ok();
}

}  // namespace

const BlurKernels kScalarBlur = {across, down, to_floats, to_bytes};

const BlurKernels& blur_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Blur;
    case Isa::kAvx2:
      return kAvx2Blur;
    case Isa::kScalar:
      break;
  }
  return kScalarBlur;
}

HalfKernel gaussian(int side, double sigma) {
  HalfKernel kernel(size_t(side / 2 + 1));
  double sum = 0;
  for (size_t t = 0; t < kernel.size(); ++t) {
    // As torchvision puts it: points of linspace(-l, l, side), l = (side - 1) / (2 sqrt 2).
    double x = double(t) * 0.70710678118654752 / sigma;
    kernel[t] = fixed_exp(std::max(-x * x, -600.0));
    sum += t == 0 ? kernel[t] : 2 * kernel[t];
  }
  for (double& weight : kernel) weight /= sum;
  return kernel;
}

HalfKernel convolved(const HalfKernel& a, const HalfKernel& b) {
  auto at = [](const HalfKernel& kernel, ptrdiff_t t) {
    size_t distance = size_t(std::abs(t));
    return distance < kernel.size() ? kernel[distance] : 0.0;
  };
  HalfKernel out(a.size() + b.size() - 1);
  auto reach = ptrdiff_t(b.size()) - 1;
  for (size_t t = 0; t < out.size(); ++t)
    for (ptrdiff_t u = -reach; u <= reach; ++u) out[t] += at(b, u) * at(a, ptrdiff_t(t) - u);
  return out;
}

int cut_radius(const HalfKernel& kernel) {
  constexpr double kNegligible = 1e-9;  // on each side
  size_t size = kernel.size();
  double tail = 0;
  while (size > 1 && tail + kernel[size - 1] < kNegligible) tail += kernel[--size];
  return int(size) - 1;
}

BlurWeights cut(const HalfKernel& kernel) {
  BlurWeights weights;
  weights.radius = cut_radius(kernel);
  for (int t = 0; t <= weights.radius; ++t) weights.at[t] = float(kernel[size_t(t)]);
  return weights;
}

Status gaussian_blur(const MutableImageView& picture, const GaussianKernel& kernel, Workspace& workspace) {
  const BlurKernels& kernels = blur_kernels(workspace.parts().kernels->isa);
  ptrdiff_t count = 3 * ptrdiff_t{picture.width};
  return blur(
      picture.size(), 3, kernel, workspace,
      [&](int y, float* row) { kernels.to_floats(picture.row(y), count, row); },
      [](int) { return static_cast<float*>(nullptr); },
      [&](int y, const float* row) { kernels.to_bytes(row, count, picture.row(y)); });
}

Status gaussian_blur(float* plane, Size size, const GaussianKernel& kernel, Workspace& workspace) {
  auto at = [&](int y) { return plane + ptrdiff_t{y} * size.width; };
  return blur(
      size, 1, kernel, workspace,
      [&](int y, float* row) { std::memcpy(row, at(y), sizeof(float) * size_t(size.width)); },
      [&](int y) { return at(y); }, [](int, const float*) {});
}

}  // namespace stoker::image
