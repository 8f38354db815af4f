// SPDX-License-Identifier: Apache-2.0
// The weights of one resize pass: which input samples make each output sample, and how much of each. Pillow's
// arithmetic: doubles, then 22-bit fixed point; or that of torch's own kernel for uint8 tensors. Weights of a
// sample add up to about 2^22, their absolute values to less than 1.5 times that. Confined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker::image {

inline constexpr int kWeightBits = 22;

enum class Filter { kBilinear, kBicubic, kNearest };

struct Resampling {
  Filter filter = Filter::kBilinear;
  bool tensor = false;  // torch's arithmetic for uint8 tensors (weights of 15 bits) instead of Pillow's
  bool operator==(const Resampling&) const = default;
};

// An axis as plain arrays, for the kernels: what is compiled for one instruction set must share no inline
// function with the rest of the program.
struct AxisView {
  int size;
  int taps_padded;  // a multiple of 4
  bool negative;    // some weights are, so that a sum may leave the bytes
  const int* first;
  const int* count;
  const int32_t* weights;  // taps_padded for each sample, zero after its count
};

// Output sample i is the sum of input[first[i] + t] * weight(i)[t] for t < count[i].
class Axis {
 public:
  // Resizing `in` samples to `out`, of which only [begin, end) will be made. Sample numbers in first() start
  // at source_begin(), so that only [source_begin, source_end) of the input is needed. Reuses its memory.
  void set(int in, int out, int begin, int end, const Resampling& how = {});

  bool identity() const { return identity_; }
  int size() const { return int(first_.size()); }
  int source_begin() const { return source_begin_; }
  int source_end() const { return source_end_; }
  int taps() const { return taps_; }  // of the widest sample
  int taps_padded() const { return taps_padded_; }
  int first(int i) const { return first_[size_t(i)]; }
  int count(int i) const { return count_[size_t(i)]; }
  const int32_t* weights(int i) const { return weights_.data() + size_t(i) * size_t(taps_padded_); }
  AxisView view() const {
    return {size(), taps_padded_, negative_, first_.data(), count_.data(), weights_.data()};
  }

 private:
  void set_nearest(int in, int out, int begin, bool tensor);
  void set_filtered(int in, int out, int begin, const Resampling& how);

  bool identity_ = false;
  bool negative_ = false;
  int source_begin_ = 0;
  int source_end_ = 0;
  int taps_ = 0;
  int taps_padded_ = 0;
  std::vector<int> first_;
  std::vector<int> count_;
  std::vector<int32_t> weights_;
  std::vector<double> exact_;
};

}  // namespace stoker::image
