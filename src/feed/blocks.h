// SPDX-License-Identifier: Apache-2.0
// Blocks: this process's own memory in which it makes batches itself, used again once the user has dropped
// them.
//
// Shared; take() and the release of blocks may come from any thread. A BlockRef owns its block; the last one
// to go gives it back to the pool, which it keeps alive. Whoever keeps batches never blocks anybody: more is
// mapped, with one warning past the budget. After a fork the child's copy of a batch stays as it was, and
// goes back nowhere.
#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/guarded.h"
#include "base/result.h"

namespace stoker::feed {

class Block {
 public:
  Block(uint8_t* at, size_t size) : at_(at), size_(size) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  MutableBytes bytes() { return {at_, size_}; }

 private:
  uint8_t* const at_;
  const size_t size_;
};
using BlockRef = std::shared_ptr<Block>;  // shared: every array of a batch owns the block

class BlockPool : public std::enable_shared_from_this<BlockPool> {
 public:
  // Keeps up to `free_blocks` that nobody uses; says once that more than `budget_bytes` are in use.
  static std::shared_ptr<BlockPool> make(size_t free_blocks, uint64_t budget_bytes);

  Result<BlockRef> take(uint64_t bytes);  // at least so large; what it held before is undefined
  uint64_t bytes_held() const;            // all blocks, free ones too

 private:
  struct State {
    std::vector<std::unique_ptr<Block>> free;
    uint64_t bytes = 0;
    bool warned = false;
  };
  BlockPool(size_t free_blocks, uint64_t budget_bytes);
  void give_back(Block* block);

  const size_t free_blocks_;
  const uint64_t budget_bytes_;
  const int pid_;
  mutable Guarded<State> state_;
};

}  // namespace stoker::feed
