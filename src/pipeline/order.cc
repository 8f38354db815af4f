// SPDX-License-Identifier: Apache-2.0
#include "pipeline/order.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/philox.h"
#include "base/random.h"

namespace stoker::pipeline {

// The same numbers: order_avx2.cc. `blocks` has room for `count` rounded up to 16, of which the rest is lost.
void forward_many_avx2(uint64_t* blocks, size_t count, int half_bits, uint64_t key, int rounds);

namespace {

constexpr int kRounds = 8;
constexpr size_t kLanes = 64;
constexpr size_t kFewLanes = 16;

int half_bits_for(uint64_t n) {
  int half = 1;
  while (half < 32 && (uint64_t{1} << (2 * half)) < n) ++half;
  return half;
}

}  // namespace

Bijection::Bijection(uint64_t n, uint64_t key) : n_(n), key_(key), half_bits_(half_bits_for(n)) {}

uint32_t Bijection::round(int index, uint32_t half) const {
  PhiloxBlock mixed = philox4x32_10({half, static_cast<uint32_t>(index), 0, 0},
                                    {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  return mixed[0] & static_cast<uint32_t>((uint64_t{1} << half_bits_) - 1);
}

uint64_t Bijection::forward(uint64_t block) const {
  auto left = static_cast<uint32_t>(block >> half_bits_);
  auto right = static_cast<uint32_t>(block & ((uint64_t{1} << half_bits_) - 1));
  for (int r = 0; r < kRounds; ++r) left = std::exchange(right, left ^ round(r, right));
  return uint64_t{left} << half_bits_ | right;
}

uint64_t Bijection::backward(uint64_t block) const {
  auto left = static_cast<uint32_t>(block >> half_bits_);
  auto right = static_cast<uint32_t>(block & ((uint64_t{1} << half_bits_) - 1));
  for (int r = kRounds - 1; r >= 0; --r) right = std::exchange(left, right ^ round(r, left));
  return uint64_t{left} << half_bits_ | right;
}

uint64_t Bijection::operator()(uint64_t i) const {
  do i = forward(i);
  while (i >= n_);
  return i;
}

// Lanes side by side through each round, in loops that compilers make vectors of.
void Bijection::forward_many(uint64_t* blocks, size_t count) const {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return forward_many_avx2(blocks, count, half_bits_, key_, kRounds);
  uint32_t left[kLanes] = {}, right[kLanes] = {};
  const auto mask = static_cast<uint32_t>((uint64_t{1} << half_bits_) - 1);
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)};
  for (size_t i = 0; i < count; ++i) {
    left[i] = static_cast<uint32_t>(blocks[i] >> half_bits_);
    right[i] = static_cast<uint32_t>(blocks[i]) & mask;
  }
  for (uint32_t r = 0; r < kRounds; ++r) {
    for (size_t i = 0; i < kLanes; ++i) {
      uint32_t mixed = left[i] ^ (philox_rounds({right[i], r, 0, 0}, key)[0] & mask);
      left[i] = right[i];
      right[i] = mixed;
    }
  }
  for (size_t i = 0; i < count; ++i) blocks[i] = uint64_t{left[i]} << half_bits_ | right[i];
}

void Bijection::of_range(uint64_t first, uint64_t count, uint64_t* out) const {
  uint64_t blocks[kLanes];
  uint64_t at[kLanes];  // where each lane's number goes
  size_t lanes = 0;
  for (uint64_t next = 0; next < count || lanes > 0;) {
    for (; lanes < kLanes && next < count; ++lanes, ++next) blocks[lanes] = first + next, at[lanes] = next;
    if (lanes <= kFewLanes) {  // a whole round of lanes would cost more
      for (size_t i = 0; i < lanes; ++i) out[at[i]] = (*this)(blocks[i]);
      lanes = 0;
      continue;
    }
    forward_many(blocks, lanes);
    size_t walking = 0;  // those that fell outside go another round of the cycle
    for (size_t i = 0; i < lanes; ++i) {
      if (blocks[i] < n_) {
        out[at[i]] = blocks[i];
      } else {
        blocks[walking] = blocks[i];
        at[walking++] = at[i];
      }
    }
    lanes = walking;
  }
}

uint64_t Bijection::inverse(uint64_t item) const {
  do item = backward(item);
  while (item >= n_);
  return item;
}

uint64_t order_key(uint64_t seed, uint64_t epoch) {
  uint8_t raw[16];
  store_le(raw, seed);
  store_le(raw + 8, epoch);
  return xxh3_64(raw, 0x73746f6b65720002);  // not the seed of seed_key(): orders and parameters share no key
}

uint64_t Order::item_at(uint64_t position) const {
  uint64_t i = position % items_;
  if (kind_ == OrderKind::kSequential) return i;
  return Bijection(items_, order_key(seed_, position / items_))(i);
}

void Order::items_at(uint64_t first, uint64_t count, uint64_t* out) const {
  while (count > 0) {
    uint64_t i = first % items_;
    uint64_t here = std::min(count, items_ - i);  // of one epoch
    if (kind_ == OrderKind::kSequential) {
      for (uint64_t k = 0; k < here; ++k) *out++ = i + k;
    } else {
      Bijection(items_, order_key(seed_, first / items_)).of_range(i, here, out);
      out += here;
    }
    first += here;
    count -= here;
  }
}

uint64_t BatchPlan::batches() const {
  return drop_last ? items / batch_size : items / batch_size + (items % batch_size != 0);
}

BatchPlan::Range BatchPlan::batch(uint64_t epoch, uint64_t index) const {
  uint64_t begin = index * batch_size;
  return {epoch * items + begin, std::min(batch_size, items - begin)};
}

}  // namespace stoker::pipeline
