// SPDX-License-Identifier: Apache-2.0
#include "image/axis.h"

#include <algorithm>
#include <cmath>

namespace stoker::image {

namespace {

// How far a filter reaches on each side, and its value there: both references use a = -0.5 for the cubic.
double reach(Filter filter) { return filter == Filter::kBicubic ? 2.0 : 1.0; }

double value_at(Filter filter, double x) {
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1.0 ? 1.0 - x : 0.0;
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

int32_t rounded(double weight, int bits) { return int32_t((weight < 0 ? -0.5 : 0.5) + weight * (1 << bits)); }

// torch: as many bits as leave the largest weight in 16.
int tensor_bits(double largest) {
  int bits = 0;
  while (bits < kWeightBits && int(0.5 + largest * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

}  // namespace

void Axis::set(int in, int out, int begin, int end, const Resampling& how) {
  int size = end - begin;
  identity_ = in == out;
  negative_ = how.filter == Filter::kBicubic;
  first_.resize(size_t(size));
  count_.resize(size_t(size));
  if (how.filter == Filter::kNearest) {
    set_nearest(in, out, begin, how.tensor);
  } else {
    set_filtered(in, out, begin, how);
  }
  source_begin_ = *std::min_element(first_.begin(), first_.end());
  source_end_ = 0;
  for (int i = 0; i < size; ++i) {
    first_[size_t(i)] -= source_begin_;
    source_end_ = std::max(source_end_, source_begin_ + first_[size_t(i)] + count_[size_t(i)]);
  }
}

// One tap of weight one. Pillow adds up the step, torch multiplies by it in float32.
void Axis::set_nearest(int in, int out, int begin, bool tensor) {
  taps_ = 1;
  taps_padded_ = 4;
  weights_.assign(first_.size() * size_t(taps_padded_), 0);
  double step = double(in) / out;
  float tensor_step = float(in) / float(out);
  double at = step * 0.5;
  for (int i = 0; i < begin; ++i) at += step;
  for (int i = 0; i < size(); ++i, at += step) {
    int first = tensor ? int(std::floor(float(begin + i) * tensor_step)) : int(at);
    first_[size_t(i)] = std::min(first, in - 1);
    count_[size_t(i)] = 1;
    weights_[size_t(i) * size_t(taps_padded_)] = 1 << kWeightBits;
  }
}

void Axis::set_filtered(int in, int out, int begin, const Resampling& how) {
  // The order of these operations decides bits; it is Pillow's and torch's.
  double scale = double(in) / out;
  double stretch = std::max(scale, 1.0);
  double support = reach(how.filter) * stretch;
  double narrow = 1.0 / stretch;
  int most = int(std::ceil(support)) * 2 + 1;
  taps_padded_ = (most + 3) / 4 * 4;
  weights_.assign(first_.size() * size_t(taps_padded_), 0);
  exact_.assign(weights_.size(), 0);

  taps_ = 0;
  double largest = 0;
  for (int i = 0; i < size(); ++i) {
    double center = (begin + i + 0.5) * scale;
    int first = std::max(0, int(center - support + 0.5));
    int count = std::min(in, int(center + support + 0.5)) - first;
    double* exact = exact_.data() + size_t(i) * size_t(taps_padded_);
    double sum = 0;
    for (int t = 0; t < count; ++t) {
      exact[t] = value_at(how.filter, (t + first - center + 0.5) * narrow);
      sum += exact[t];
    }
    for (int t = 0; t < count; ++t) {
      if (sum != 0.0) exact[t] /= sum;
      largest = std::max(largest, exact[t]);
    }
    first_[size_t(i)] = first;
    count_[size_t(i)] = count;
  }
  int bits = how.tensor ? tensor_bits(largest) : kWeightBits;
  for (int i = 0; i < size(); ++i) {
    size_t at = size_t(i) * size_t(taps_padded_);
    int& count = count_[size_t(i)];
    for (int t = 0; t < count; ++t)
      weights_[at + size_t(t)] = rounded(exact_[at + size_t(t)], bits) * (1 << (kWeightBits - bits));
    // Samples of weight zero at the ends need not be there.
    while (count > 1 && weights_[at + size_t(count) - 1] == 0) --count;
    taps_ = std::max(taps_, count);
  }
}

}  // namespace stoker::image
