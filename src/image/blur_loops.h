// SPDX-License-Identifier: Apache-2.0
// The blur's two passes over any vector of floats; for blur_avx2.cc and blur_avx512.cc alone. V must be a
// type of the including file's unnamed namespace, so that no copy compiled for one instruction set is linked
// in for another: Type, kLanes, load, store, store_first (of `count` lanes, or all), all, add, mul, mul_add
// (a * b + c, fused).
#pragma once

#include <cstddef>

namespace stoker::image {

template <class V>
void across(const float* in, ptrdiff_t count, ptrdiff_t step, const float* weights, int radius, float* out) {
  constexpr int kVectors = 4;  // so that chains of additions overlap
  for (ptrdiff_t i = 0; i < count; i += kVectors * V::kLanes) {
    const float* at = in + i;
    typename V::Type sums[kVectors];
    for (int v = 0; v < kVectors; ++v) sums[v] = V::mul(V::all(weights[0]), V::load(at + v * V::kLanes));
    for (int t = 1; t <= radius; ++t) {
      const typename V::Type weight = V::all(weights[t]);
      for (int v = 0; v < kVectors; ++v) {
        typename V::Type both =
            V::add(V::load(at + v * V::kLanes - t * step), V::load(at + v * V::kLanes + t * step));
        sums[v] = V::mul_add(weight, both, sums[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) V::store(out + i + v * V::kLanes, sums[v]);
  }
}

// kVectors of both rows. What one of them needs at distance t the other needed at t - 1: it is kept.
template <class V, int kVectors>
inline void two_rows(const float* const* rows, ptrdiff_t i, const float* weights, int radius,
                     typename V::Type (&sums)[2][kVectors]) {
  typename V::Type above[kVectors], below[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    above[v] = V::load(rows[radius] + i + v * V::kLanes);
    below[v] = V::load(rows[radius + 1] + i + v * V::kLanes);
    sums[0][v] = V::mul(V::all(weights[0]), above[v]);
    sums[1][v] = V::mul(V::all(weights[0]), below[v]);
  }
  for (int t = 1; t <= radius; ++t) {
    const typename V::Type weight = V::all(weights[t]);
    const float* higher = rows[radius - t] + i;
    const float* lower = rows[radius + 1 + t] + i;
    for (int v = 0; v < kVectors; ++v) {
      typename V::Type next_above = V::load(higher + v * V::kLanes);
      typename V::Type next_below = V::load(lower + v * V::kLanes);
      sums[0][v] = V::mul_add(weight, V::add(next_above, below[v]), sums[0][v]);
      sums[1][v] = V::mul_add(weight, V::add(above[v], next_below), sums[1][v]);
      above[v] = next_above;
      below[v] = next_below;
    }
  }
}

template <class V>
void down(const float* const* rows, ptrdiff_t count, const float* weights, int radius, float* const* out) {
  constexpr int kVectors = 2;
  ptrdiff_t i = 0;
  for (; i + kVectors * V::kLanes <= count; i += kVectors * V::kLanes) {
    typename V::Type sums[2][kVectors];
    two_rows<V, kVectors>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k)
      for (int v = 0; v < kVectors; ++v) V::store(out[k] + i + v * V::kLanes, sums[k][v]);
  }
  for (; i < count; i += V::kLanes) {
    typename V::Type sums[2][1];
    two_rows<V, 1>(rows, i, weights, radius, sums);
    for (int k = 0; k < 2; ++k) V::store_first(out[k] + i, count - i, sums[k][0]);
  }
}

}  // namespace stoker::image
