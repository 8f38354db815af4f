// SPDX-License-Identifier: Apache-2.0
#include "image/axis.h"

#include <algorithm>
#include <cmath>

namespace stoker::image {

void Axis::set(int in, int out, int begin, int end) {
  int size = end - begin;
  identity_ = in == out;
  first_.resize(size_t(size));
  count_.resize(size_t(size));

  // The order of these operations decides bits; it is Pillow's.
  double scale = double(in) / out;
  double stretch = std::max(scale, 1.0);
  double support = stretch;  // the triangle reaches one sample each side, stretched
  double narrow = 1.0 / stretch;
  int most = int(std::ceil(support)) * 2 + 1;
  taps_padded_ = (most + 3) / 4 * 4;
  weights_.assign(size_t(size) * size_t(taps_padded_), 0);
  exact_.resize(size_t(most));

  taps_ = 0;
  for (int i = 0; i < size; ++i) {
    double center = (begin + i + 0.5) * scale;
    int first = std::max(0, int(center - support + 0.5));
    int count = std::min(in, int(center + support + 0.5)) - first;
    double sum = 0;
    for (int t = 0; t < count; ++t) {
      double distance = std::abs((t + first - center + 0.5) * narrow);
      exact_[size_t(t)] = distance < 1.0 ? 1.0 - distance : 0.0;
      sum += exact_[size_t(t)];
    }
    int32_t* weights = weights_.data() + size_t(i) * size_t(taps_padded_);
    for (int t = 0; t < count; ++t) {
      double weight = sum != 0.0 ? exact_[size_t(t)] / sum : exact_[size_t(t)];
      weights[t] = int32_t(0.5 + weight * (1 << kWeightBits));
    }
    // Samples of weight zero at the ends need not be there.
    while (count > 1 && weights[count - 1] == 0) --count;
    first_[size_t(i)] = first;
    count_[size_t(i)] = count;
    taps_ = std::max(taps_, count);
  }
  source_begin_ = *std::min_element(first_.begin(), first_.end());
  source_end_ = 0;
  for (int i = 0; i < size; ++i) {
    first_[size_t(i)] -= source_begin_;
    source_end_ = std::max(source_end_, source_begin_ + first_[size_t(i)] + count_[size_t(i)]);
  }
}

}  // namespace stoker::image
