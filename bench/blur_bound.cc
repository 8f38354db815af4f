// SPDX-License-Identifier: Apache-2.0
// The bound of the question blur10: the arithmetic of our two passes for one 224 x 224 x 3 picture of floats
// and ten blurs of kernel 11 with sigmas as torchvision draws them, done in one, on rows that never leave the
// first cache. What ours costs above it is reading, decoding, converting, memory, hashing and handing over.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "image/blur.h"
#include "image/blur_kernels.h"

namespace {

using namespace stoker::image;

constexpr int kSide = 224, kChannels = 3, kBlurs = 10;

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

struct Rows {
  std::vector<float> memory = std::vector<float>(3 * (kSide + 2 * kMaxBlurRadius + 64), 0.5F);
  std::vector<const float*> inputs = std::vector<const float*>(2 * kMaxBlurRadius + 2, memory.data());
  float* out[2] = {memory.data() + 600, memory.data() + 900};
};

void picture(Rows& rows, std::mt19937& random) {
  std::uniform_real_distribution<double> sigma(0.1, 2.0);
  HalfKernel all{1};
  for (int i = 0; i < kBlurs; ++i) all = convolved(all, gaussian(11, sigma(random)));
  BlurWeights weights = cut(all);
  const BlurKernels& best = blur_kernels(kernels().isa);
  for (int y = 0; y < kChannels * kSide; ++y) {
    best.across(rows.memory.data() + kMaxBlurRadius, kSide, 1, weights.at, weights.radius, rows.out[0]);
    if (y % 2 == 0) best.down(rows.inputs.data(), kSide, weights.at, weights.radius, rows.out);
  }
}

double option(int argc, char** argv, const char* name, double otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return std::atof(argv[i + 1]);
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  double window_s = option(argc, argv, "--seconds", 2), warmup_s = option(argc, argv, "--warmup", 1);
  int windows = int(option(argc, argv, "--windows", 3));
  Rows rows;
  std::mt19937 random(1);
  for (double begin = seconds(CLOCK_MONOTONIC); seconds(CLOCK_MONOTONIC) - begin < warmup_s;)
    picture(rows, random);
  double items = 0, least_cpu = 1e9, least_wall = 1e9;
  for (int window = 0; window < windows; ++window) {
    double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = 0, count = 0;
    while (wall < window_s) {
      picture(rows, random);
      ++count;
      wall = seconds(CLOCK_MONOTONIC) - start;
    }
    items += count;
    least_cpu = std::min(least_cpu, (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) / count);
    least_wall = std::min(least_wall, wall / count);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("{\"items\": %.0f, \"cpu_s_per_item\": %.7f, \"wall_s_per_item\": %.7f, \"rss_mb\": %ld}\n", items,
         least_cpu, least_wall, usage.ru_maxrss / 1024);
  return 0;
}
