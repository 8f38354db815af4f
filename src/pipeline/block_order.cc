// SPDX-License-Identifier: Apache-2.0
#include "pipeline/block_order.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/hash.h"
#include "pipeline/order.h"

namespace stoker::pipeline {
namespace {

// Neither the shards' key nor another window's.
uint64_t window_key(uint64_t epoch_key, uint64_t window) {
  uint8_t raw[16];
  store_le(raw, epoch_key);
  store_le(raw + 8, window);
  return xxh3_64(raw, 0x73746f6b65720003);
}

}  // namespace

BlockOrder::BlockOrder(std::vector<uint64_t> starts, uint64_t window, uint64_t seed)
    : starts_(std::move(starts)), window_(window), seed_(seed) {}

Result<BlockOrder> BlockOrder::make(std::vector<uint64_t> starts, uint64_t window, uint64_t seed) {
  if (starts.size() < 2 || starts.front() != 0 || starts.back() == 0 ||
      !std::is_sorted(starts.begin(), starts.end()))
    return invalid("block order: the starts of shards must rise from 0");
  if (window == 0) return invalid("block order: a window must have at least one shard");
  return BlockOrder(std::move(starts), window, seed);
}

void BlockOrder::lay_out(uint64_t epoch) {
  if (laid_out_ && epoch_ == epoch) return;
  uint64_t count = starts_.size() - 1;
  Bijection shuffle(count, order_key(seed_, epoch));
  shards_.resize(count);
  for (uint64_t i = 0; i < count; ++i) shards_[i] = shuffle(i);
  window_starts_.assign(1, 0);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) {
    sum += starts_[shards_[i] + 1] - starts_[shards_[i]];
    if ((i + 1) % window_ == 0 || i + 1 == count) window_starts_.push_back(sum);
  }
  epoch_ = epoch;
  laid_out_ = true;
}

// Item number `inside` of a window, its shards one behind the other.
uint64_t BlockOrder::item_of(uint64_t window, uint64_t inside) const {
  for (uint64_t i = window * window_;; ++i) {
    uint64_t size = starts_[shards_[i] + 1] - starts_[shards_[i]];
    if (inside < size) return starts_[shards_[i]] + inside;
    inside -= size;
  }
}

uint64_t BlockOrder::item_at(uint64_t position) {
  uint64_t item = 0;
  items_at(position, 1, &item);
  return item;
}

void BlockOrder::items_at(uint64_t first, uint64_t count, uint64_t* out) {
  while (count > 0) {
    lay_out(first / items());
    uint64_t key = order_key(seed_, epoch_);
    uint64_t i = first % items();
    auto after = std::upper_bound(window_starts_.begin(), window_starts_.end(), i);
    auto window = static_cast<uint64_t>(after - window_starts_.begin() - 1);
    uint64_t begin = window_starts_[window], end = *after;
    Bijection shuffle(end - begin, window_key(key, window));
    uint64_t here = std::min(count, end - i);
    for (uint64_t k = 0; k < here; ++k) *out++ = item_of(window, shuffle(i + k - begin));
    first += here;
    count -= here;
  }
}

}  // namespace stoker::pipeline
