// SPDX-License-Identifier: Apache-2.0
#include "wire/slots.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/log.h"

namespace stoker::wire {
namespace {
constexpr uint64_t kPage = 4096;
}

std::shared_ptr<SlotPool> SlotPool::make(bool shared, uint64_t budget_bytes, bool warns) {
  return std::shared_ptr<SlotPool>(new SlotPool(shared, budget_bytes, warns));
}

SlotPool::~SlotPool() = default;

// Of the process's limit an eighth each for slots with the user and free ones.
size_t SlotPool::kept_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kKeepDescriptors;
  return std::min<size_t>(kKeepDescriptors, limit.rlim_cur / 8);
}

Result<SlotRef> SlotPool::take(uint64_t bytes) {
  uint64_t size = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  bool warn = false;
  std::unique_ptr<Slot> slot = state_.with([&](State& state) -> std::unique_ptr<Slot> {
    // The smallest that fits, unless it would waste more than half of itself.
    auto best = state.free.end();
    // Of equals the one that came back last, which is most likely still in cache.
    for (auto at = state.free.begin(); at != state.free.end(); ++at) {
      uint64_t has = (*at)->bytes().size();
      if (has >= size && has <= 2 * size && (best == state.free.end() || has <= (*best)->bytes().size()))
        best = at;
    }
    if (best != state.free.end()) {
      std::unique_ptr<Slot> found = std::move(*best);
      state.free.erase(best);
      state.free_bytes -= found->bytes().size();
      return found;
    }
    state.bytes += size;
    warn = warns_ && state.bytes - state.free_bytes > budget_bytes_ && !std::exchange(state.warned, true);
    auto made = std::make_unique<Slot>();
    made->id_ = state.next_id++;
    return made;
  });
  if (warn)
    log_line(LogLevel::kWarn, "feed",
             "batches that are kept hold more than the budget of " + std::to_string(budget_bytes_ >> 20) +
                 " MiB; memory grows with every batch that is kept");
  if (slot->bytes().empty()) {
    auto map = [&]() -> Status {
      STOKER_ASSIGN(slot->fd_, make_memfd("stoker-slot", size));
      STOKER_ASSIGN(slot->mapping_, Mapping::of_fd(slot->fd_.get(), size, true, true));
      if (!shared_) slot->fd_.reset();
      return ok();
    };
    if (auto mapped = map(); !mapped.ok()) {
      state_.with([&](State& state) { state.bytes -= size; });
      return std::move(mapped).error().during("making room for a batch");
    }
  }
  auto pool = shared_from_this();
  return SlotRef(slot.release(), [pool](Slot* back) { pool->give_back(back); });
}

void SlotPool::hand_over(Slot& slot) {
  state_.with([&](State& state) {
    if (std::exchange(slot.handed_over_, true)) return;
    if (++state.with_user > keeps_) slot.fd_.reset();
  });
}

void SlotPool::give_back(Slot* raw) {
  std::unique_ptr<Slot> slot(raw);
  std::unique_ptr<Slot> dropped;  // unmapped outside the lock
  state_.with([&](State& state) {
    if (std::exchange(slot->handed_over_, false)) --state.with_user;
    uint64_t size = slot->bytes().size();
    bool keep = (!shared_ || slot->fd_) && state.bytes <= budget_bytes_ + size && state.free.size() < keeps_;
    if (keep) {
      state.free_bytes += size;
      state.free.push_back(std::move(slot));
    } else {
      state.bytes -= size;
      state.gone.push_back(slot->id_);
      dropped = std::move(slot);
    }
  });
}

std::vector<uint64_t> SlotPool::take_gone() {
  return state_.with([](State& state) { return std::exchange(state.gone, {}); });
}

uint64_t SlotPool::bytes_held() const {
  return state_.with([](State& state) { return state.bytes; });
}

}  // namespace stoker::wire
