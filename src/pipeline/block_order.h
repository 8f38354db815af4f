// SPDX-License-Identifier: Apache-2.0
// The order block(k): shuffled so that few container files are read at a time. Each epoch the shards are
// permuted by a bijection, taken k at a time, and the items of such a window are permuted by another: a
// reader touches k shards at once, and every item once an epoch. Confined: it remembers the windows of one
// epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace stoker::pipeline {

class BlockOrder {
 public:
  // `starts`: the first item of each shard and the number of items at the end. kInvalid unless they rise from
  // 0 to at least 1, and `window` (k) is at least 1.
  static Result<BlockOrder> make(std::vector<uint64_t> starts, uint64_t window, uint64_t seed);

  uint64_t items() const { return starts_.back(); }
  uint64_t item_at(uint64_t position);  // O(log windows), once the epoch is the one before
  void items_at(uint64_t first, uint64_t count, uint64_t* out);

 private:
  BlockOrder(std::vector<uint64_t> starts, uint64_t window, uint64_t seed);
  void lay_out(uint64_t epoch);
  uint64_t item_of(uint64_t window, uint64_t inside) const;

  std::vector<uint64_t> starts_;
  uint64_t window_, seed_;
  uint64_t epoch_ = 0;
  bool laid_out_ = false;
  std::vector<uint64_t> shards_;         // in the epoch's order
  std::vector<uint64_t> window_starts_;  // the first index of each window, and items()
};

}  // namespace stoker::pipeline
