// SPDX-License-Identifier: Apache-2.0
// Which item stands at which position, and which positions make a batch. O(1) each, no list, no state. Pure
// values.
//
// Position p = epoch * N + i, i in [0, N). Only a loader's client knows orders: a worker is told (position,
// item). An explicit order (a user's sampler) is a list that the client holds; it needs nothing from here but
// the arithmetic.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace stoker::pipeline {

// A bijection of [0, n) by an 8-round Feistel network on the smallest even number of bits that holds n,
// walking the cycle until it falls inside (fewer than 4 steps on average). The round function is Philox; all
// 64 bits of the key count in every round.
class Bijection {
 public:
  Bijection(uint64_t n, uint64_t key);
  uint64_t operator()(uint64_t i) const;  // i < n
  uint64_t inverse(uint64_t item) const;  // item < n
  // Of first, first + 1, …: the same numbers in a fraction of the time, since many are mixed side by side.
  void of_range(uint64_t first, uint64_t count, uint64_t* out) const;

 private:
  uint64_t forward(uint64_t block) const;
  void forward_many(uint64_t* blocks, size_t count) const;
  uint64_t backward(uint64_t block) const;
  uint32_t round(int index, uint32_t half) const;
  uint64_t n_;
  uint64_t key_;
  int half_bits_;
};

enum class OrderKind { kSequential, kFull };

// order_key: hashed from seed and epoch together, so that (seed, epoch) pairs have unrelated shuffles.
uint64_t order_key(uint64_t seed, uint64_t epoch);

class Order {
 public:
  Order(OrderKind kind, uint64_t items, uint64_t seed) : kind_(kind), items_(items), seed_(seed) {}
  OrderKind kind() const { return kind_; }
  uint64_t items() const { return items_; }
  uint64_t seed() const { return seed_; }
  uint64_t item_at(uint64_t position) const;  // items() > 0
  void items_at(uint64_t first, uint64_t count,
                uint64_t* out) const;  // of one range of positions; any epochs

 private:
  OrderKind kind_;
  uint64_t items_;
  uint64_t seed_;
};

// Batch j of epoch e is positions e*N + [j*B, min((j+1)*B, N)); the short last one is dropped under
// drop_last.
struct BatchPlan {
  uint64_t items = 0;
  uint64_t batch_size = 1;
  bool drop_last = false;

  struct Range {
    uint64_t first = 0;
    uint64_t count = 0;
    bool operator==(const Range&) const = default;
  };
  uint64_t batches() const;                           // per epoch
  Range batch(uint64_t epoch, uint64_t index) const;  // index < batches()
};

}  // namespace stoker::pipeline
