// SPDX-License-Identifier: Apache-2.0
// Slots: memory in which batches are made and handed to the user, and the pool that uses them again.
//
// Shared; take() and the release of slots may come from any thread. A SlotRef owns its slot; the last one to
// go gives it back to the pool, which it keeps alive. Nothing has a name, so nothing is left behind by
// SIGKILL.
//
// Whoever keeps batches never blocks anybody: more is allocated, with one warning past the budget. A shared
// slot keeps its memfd so that a child started later can be given it; batches that the user piles up past
// kKeepDescriptors lose theirs (descriptors are scarcer than memory) and are unmapped on release.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/guarded.h"
#include "base/result.h"

namespace stoker::wire {

class Slot {
 public:
  uint64_t id() const { return id_; }
  MutableBytes bytes() { return mapping_.writable(); }
  int descriptor() const { return fd_.get(); }  // -1: not shared (any more)

 private:
  friend class SlotPool;
  uint64_t id_ = 0;
  UniqueFd fd_;
  Mapping mapping_;
  bool handed_over_ = false;
};
using SlotRef = std::shared_ptr<Slot>;  // shared: every array of a batch owns the slot

class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  static constexpr size_t kKeepDescriptors = 64;  // fewer where the process may have few

  // `shared`: memfds that can be passed to children; else plain memory.
  // Past `budget_bytes` free slots are not kept, and with `warns` the user is told once.
  static std::shared_ptr<SlotPool> make(bool shared, uint64_t budget_bytes, bool warns = false);
  ~SlotPool();

  Result<SlotRef> take(uint64_t bytes);  // prefaulted; at least so large
  void hand_over(Slot& slot);            // nobody writes it any more; the user holds it, or soon will
  std::vector<uint64_t> take_gone();     // slots unmapped since the last call: children may drop them
  uint64_t bytes_held() const;           // all slots, free ones too

 private:
  struct State {
    std::vector<std::unique_ptr<Slot>> free;
    std::vector<uint64_t> gone;
    uint64_t next_id = 1;
    uint64_t bytes = 0;
    uint64_t free_bytes = 0;
    size_t with_user = 0;
    bool warned = false;
  };
  SlotPool(bool shared, uint64_t budget_bytes, bool warns)
      : shared_(shared), budget_bytes_(budget_bytes), warns_(warns), keeps_(kept_descriptors()) {}
  static size_t kept_descriptors();
  void give_back(Slot* slot);

  const bool shared_;
  const uint64_t budget_bytes_;
  const bool warns_;
  const size_t keeps_;
  mutable Guarded<State> state_;
};

}  // namespace stoker::wire
