// SPDX-License-Identifier: Apache-2.0
// From coefficients to samples over vectors that hold the same row of several blocks, 128 bits each; for
// jpeg_kernels_avx2.cc and jpeg_kernels_avx512.cc alone. V must be a type of the including file's unnamed
// namespace, so that no copy compiled for one instruction set is linked in for another: Type, and what works
// on 128 bits at a time: add16, sub16, add32, sub32, sra<shift> of 32 bits, madd, pack32, pack16, low<bits>
// and high<bits> (which interleave), all32, zero.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace stoker::image {

// Products of 16 bits and their sums of 32, for the lower and the upper four columns of each block.
template <class V>
struct WideSum {
  typename V::Type low, high;
  WideSum operator+(const WideSum& b) const { return {V::add32(low, b.low), V::add32(high, b.high)}; }
  WideSum operator-(const WideSum& b) const { return {V::sub32(low, b.low), V::sub32(high, b.high)}; }
};
template <class V>
struct PairsOf {
  typename V::Type low, high;
  PairsOf(typename V::Type a, typename V::Type b)
      : low(V::template low<16>(a, b)), high(V::template high<16>(a, b)) {}
  WideSum<V> weighted(int a, int b) const {
    typename V::Type weights = V::all32((a & 0xFFFF) | int(unsigned(b) << 16));
    return {V::madd(low, weights), V::madd(high, weights)};
  }
};

template <class V, int kShift>
inline typename V::Type narrowed(const WideSum<V>& sum) {
  const typename V::Type half = V::all32(1 << (kShift - 1));
  return V::pack32(V::template sra<kShift>(V::add32(sum.low, half)),
                   V::template sra<kShift>(V::add32(sum.high, half)));
}

// See transform_line() of the scalar kernels.
template <class V, int kShift>
inline void transform_lines(typename V::Type* in) {
  auto scaled = [](typename V::Type value) -> WideSum<V> {  // by 2^13
    return {V::template sra<3>(V::template low<16>(V::zero(), value)),
            V::template sra<3>(V::template high<16>(V::zero(), value))};
  };
  WideSum<V> even0 = scaled(V::add16(in[0], in[4]));
  WideSum<V> even1 = scaled(V::sub16(in[0], in[4]));
  PairsOf<V> in26(in[2], in[6]);
  WideSum<V> turn0 = in26.weighted(10703, 4433);
  WideSum<V> turn1 = in26.weighted(4433, -10704);
  PairsOf<V> sums(V::add16(in[7], in[3]), V::add16(in[5], in[1]));
  WideSum<V> z3 = sums.weighted(-6436, 9633);
  WideSum<V> z4 = sums.weighted(9633, 6437);
  PairsOf<V> in71(in[7], in[1]);
  PairsOf<V> in53(in[5], in[3]);

  WideSum<V> odd = in71.weighted(-7373, 4926) + z4;
  WideSum<V> even = even0 + turn0;
  in[0] = narrowed<V, kShift>(even + odd);
  in[7] = narrowed<V, kShift>(even - odd);
  odd = in71.weighted(-4927, -7373) + z3;
  even = even0 - turn0;
  in[3] = narrowed<V, kShift>(even + odd);
  in[4] = narrowed<V, kShift>(even - odd);
  odd = in53.weighted(-20995, 4177) + z3;
  even = even1 + turn1;
  in[1] = narrowed<V, kShift>(even + odd);
  in[6] = narrowed<V, kShift>(even - odd);
  odd = in53.weighted(-4176, -20995) + z4;
  even = even1 - turn1;
  in[2] = narrowed<V, kShift>(even + odd);
  in[5] = narrowed<V, kShift>(even - odd);
}

template <class V>
inline void transpose(typename V::Type* r) {
  typename V::Type a[8];
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = V::template low<16>(r[2 * i], r[2 * i + 1]);
    a[2 * i + 1] = V::template high<16>(r[2 * i], r[2 * i + 1]);
  }
  typename V::Type b[8];
  for (int i = 0; i < 2; ++i) {
    b[4 * i] = V::template low<32>(a[4 * i], a[4 * i + 2]);
    b[4 * i + 1] = V::template high<32>(a[4 * i], a[4 * i + 2]);
    b[4 * i + 2] = V::template low<32>(a[4 * i + 1], a[4 * i + 3]);
    b[4 * i + 3] = V::template high<32>(a[4 * i + 1], a[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = V::template low<64>(b[i], b[i + 4]);
    r[2 * i + 1] = V::template high<64>(b[i], b[i + 4]);
  }
}

// Columns to rows of bytes, two rows in each 128 bits.
template <class V>
inline void pack_columns(const typename V::Type* c, typename V::Type* rows) {
  typename V::Type c02 = V::pack16(c[0], c[2]);
  typename V::Type c13 = V::pack16(c[1], c[3]);
  typename V::Type c46 = V::pack16(c[4], c[6]);
  typename V::Type c57 = V::pack16(c[5], c[7]);
  typename V::Type c01 = V::template low<8>(c02, c13);
  typename V::Type c23 = V::template high<8>(c02, c13);
  typename V::Type c45 = V::template low<8>(c46, c57);
  typename V::Type c67 = V::template high<8>(c46, c57);
  typename V::Type upper0123 = V::template low<16>(c01, c23);
  typename V::Type lower0123 = V::template high<16>(c01, c23);
  typename V::Type upper4567 = V::template low<16>(c45, c67);
  typename V::Type lower4567 = V::template high<16>(c45, c67);
  rows[0] = V::template low<32>(upper0123, upper4567);
  rows[1] = V::template high<32>(upper0123, upper4567);
  rows[2] = V::template low<32>(lower0123, lower4567);
  rows[3] = V::template high<32>(lower0123, lower4567);
}

// All of it; in: rows, multiplied by their steps; out: as pack_columns(), samples less 128.
template <class V>
inline void transform_rows(typename V::Type* rows, typename V::Type* packed) {
  transform_lines<V, 11>(rows);
  transpose<V>(rows);
  transform_lines<V, 18>(rows);
  pack_columns<V>(rows, packed);
}

}  // namespace stoker::image
