// SPDX-License-Identifier: Apache-2.0
// One own child that makes rows or units straight into slots: `stoker feed-worker --fd N` or `python -m
// stoker.data.worker --fd N`; "a child on a socketpair" in docs/formats/wire.md. Used by the client for its
// local workers and by the worker for Python plans. Confined to its loop.
//
// A slot that a child has been granted stays alive here until the child has answered or is dead and reaped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "feed/sent_plan.h"
#include "wire/child.h"
#include "wire/link.h"
#include "wire/slots.h"

namespace stoker::feed {

class ChildLink;
class ChildHandler {
 public:
  virtual ~ChildHandler() = default;
  virtual void on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) = 0;
  virtual void on_child_refused(ChildLink& child, const Fault& fault) = 0;
  // Rows: `hashes` row by row. Unit: `bytes` of `slot` and their hash.
  virtual void on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                             const RowCounts& counts) = 0;
  virtual void on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                             uint64_t hash) = 0;
  virtual void on_child_error(ChildLink& child, uint32_t request, const Fault& fault) = 0;
  virtual void on_child_cancelled(ChildLink& child, uint32_t request) = 0;
  // What its samples cost so far: JSON, see "a child's times" in docs/formats/wire.md.
  virtual void on_child_times(ChildLink& child, std::string_view json) { (void)child, (void)json; }
  // It is dead and reaped, by itself or for breaking the protocol. The handler may destroy it, but not in
  // this call.
  virtual void on_child_gone(ChildLink& child, const std::string& how) = 0;
};

class ChildLink : wire::LinkHandler {
 public:
  // One that has not answered to the plan within `start_ns` is killed and gone.
  static Result<std::unique_ptr<ChildLink>> start(wire::Loop& loop, const wire::ChildCommand& command,
                                                  std::shared_ptr<const SentPlan> plan,
                                                  std::shared_ptr<wire::SlotPool> pool, ChildHandler& handler,
                                                  int64_t start_ns = kPlanNs);
  ~ChildLink() override;

  // Errors of both: no descriptor or memory was left here; nothing has been asked.
  Status ask_rows(uint32_t request, uint64_t batch, const std::vector<Ref>& refs, wire::SlotRef slot,
                  uint32_t first_row, uint32_t slot_rows, size_t leaves);
  // Starts with a slot of `expected_bytes`; when the unit does not fit, the child gets one that does.
  Status ask_unit(uint32_t request, uint64_t batch, const std::vector<Ref>& refs, uint64_t expected_bytes);
  void cancel(uint32_t request);
  void pace(uint64_t millionths);  // how much of the time each of its threads may run
  void drop_slots(const std::vector<uint64_t>& gone);
  std::string kill();  // SIGKILL and reap; no on_child_gone()

  int pid() const { return child_->pid(); }
  bool too_slow_to_start() const { return too_slow_; }  // why it is gone
  int64_t cpu_ns() const { return child_->cpu_ns(); }
  std::string last_lines() const { return child_->last_lines(); }
  bool ready() const { return ready_; }

 private:
  struct Asked {
    wire::SlotRef slot;
    uint32_t rows = 0;
    size_t leaves = 0;  // 0: a unit
  };
  ChildLink(wire::Loop& loop, std::shared_ptr<wire::SlotPool> pool, ChildHandler& handler)
      : loop_(loop), pool_(std::move(pool)), handler_(handler) {}
  Result<std::vector<wire::Piece>> on_header(wire::Link& link, const wire::Header& header) override;
  Status on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_closed(wire::Link& link, const Error& error) override;
  Status send_slot(wire::Slot& slot);
  void gone(const std::string& how);
  void start_took_too_long(int64_t limit_ns);

  wire::Loop& loop_;
  std::shared_ptr<wire::SlotPool> pool_;
  ChildHandler& handler_;
  std::unique_ptr<wire::Child> child_;
  std::shared_ptr<wire::Link> link_;
  std::map<uint32_t, Asked> asked_;
  std::set<uint64_t> slots_sent_;
  bool ready_ = false;
  bool gone_ = false;
  bool too_slow_ = false;
  std::optional<wire::Loop::Timer> start_limit_;
  std::optional<wire::Loop::Timer> linger_;
};

}  // namespace stoker::feed
