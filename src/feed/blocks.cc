// SPDX-License-Identifier: Apache-2.0
#include "feed/blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace stoker::feed {
namespace {
constexpr uint64_t kPage = 4096, kHugePage = uint64_t{2} << 20;
}

Block::~Block() { munmap(at_, size_); }

BlockPool::BlockPool(size_t free_blocks, uint64_t budget_bytes)
    : free_blocks_(free_blocks), budget_bytes_(budget_bytes), pid_(getpid()) {}

std::shared_ptr<BlockPool> BlockPool::make(size_t free_blocks, uint64_t budget_bytes) {
  return std::shared_ptr<BlockPool>(new BlockPool(free_blocks, budget_bytes));
}

Result<BlockRef> BlockPool::take(uint64_t bytes) {
  uint64_t size = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  bool warn = false;
  std::unique_ptr<Block> block = state_.with([&](State& state) -> std::unique_ptr<Block> {
    // The one that came back last is most likely still in cache. An epoch's last batch, a smaller one, takes
    // it too.
    for (auto at = state.free.rbegin(); at != state.free.rend(); ++at) {
      uint64_t has = (*at)->bytes().size();
      if (has < size || has / 2 > std::max(size, kHugePage)) continue;
      std::unique_ptr<Block> found = std::move(*at);
      state.free.erase(std::next(at).base());
      return found;
    }
    state.bytes += size;
    warn = state.bytes > budget_bytes_ && !std::exchange(state.warned, true);
    return nullptr;
  });
  if (warn)
    log_line(LogLevel::kWarn, "feed",
             "batches that are kept hold more than the budget of " + std::to_string(budget_bytes_ >> 20) +
                 " MiB; memory grows with every batch that is kept");
  if (!block) {
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      int why = errno;
      state_.with([&](State& state) { state.bytes -= size; });
      return errno_error("making room for a batch of " + std::to_string(size) + " bytes", why);
    }
    if (size >= kHugePage) madvise(at, size, MADV_HUGEPAGE);  // where there are none, small ones do
    block = std::make_unique<Block>(static_cast<uint8_t*>(at), size);
  }
  return BlockRef(block.release(), [pool = shared_from_this()](Block* back) { pool->give_back(back); });
}

void BlockPool::give_back(Block* raw) {
  std::unique_ptr<Block> block(raw);
  if (getpid() != pid_) return;  // a fork's copy of the lock may be held by a thread that is not there
  state_.with([&](State& state) {
    if (state.free.size() < free_blocks_) {
      state.free.push_back(std::move(block));
    } else {
      state.bytes -= block->bytes().size();  // unmapped outside the lock
    }
  });
}

uint64_t BlockPool::bytes_held() const {
  return state_.with([](State& state) { return state.bytes; });
}

}  // namespace stoker::feed
