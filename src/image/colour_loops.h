// SPDX-License-Identifier: Apache-2.0
// From YCbCr of 16 bits to RGB of 16 bits, over any vector; for jpeg_kernels_avx2.cc and
// jpeg_kernels_avx512.cc alone. V as in transform_loops.h, with mulhi (the upper half of products of 16
// bits), sra16<shift>, all16.
#pragma once

#include "image/transform_loops.h"

namespace stoker::image {

template <class V>
struct RgbOf {
  typename V::Type r, g, b;  // not yet cut to bytes
};

// Halves are rounded by a doubled factor: ((2xw >> 16) + 1) >> 1 is (xw + 2^15) >> 16.
template <class V>
inline typename V::Type scaled_by(typename V::Type doubled, int weight) {
  return V::template sra16<1>(V::add16(V::mulhi(doubled, V::all16(weight)), V::all16(1)));
}

template <class V>
inline RgbOf<V> pixels(typename V::Type luma, typename V::Type blue, typename V::Type red) {
  blue = V::sub16(blue, V::all16(128));
  red = V::sub16(red, V::all16(128));
  typename V::Type blue2 = V::add16(blue, blue);
  typename V::Type red2 = V::add16(red, red);
  RgbOf<V> out;
  out.r = V::add16(V::add16(luma, red), scaled_by<V>(red2, 91881 - 65536));
  out.b = V::add16(V::add16(luma, blue2), scaled_by<V>(blue2, 116130 - 131072));
  // One part of 65536 - 46802 of red instead of -46802: so it fits into 16 bits.
  WideSum<V> sum = PairsOf<V>(blue, red).weighted(-22554, 65536 - 46802);
  const typename V::Type half = V::all32(1 << 15);
  typename V::Type green =
      V::pack32(V::template sra<16>(V::add32(sum.low, half)), V::template sra<16>(V::add32(sum.high, half)));
  out.g = V::add16(V::sub16(luma, red), green);
  return out;
}

}  // namespace stoker::image
