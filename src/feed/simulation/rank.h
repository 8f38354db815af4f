// SPDX-License-Identifier: Apache-2.0
// One trainer: production's Assigner with a thin stand-in for ClientCore around it, and beside it a plain
// model of what was asked of whom, against which every decision is checked. Confined to its World.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "feed/simulation/world.h"

namespace stoker::feed::simulation {

class Rank {
 public:
  // Rank number `place` of `ranks`, from this step on; `index` is its name in the world.
  Rank(World& world, uint32_t index, uint32_t place, uint32_t ranks, uint32_t step);
  void start();
  void end();  // kill -9 of the trainer
  bool over() const { return over_; }
  bool done() const { return next_out_ == batches_.size() && next_step_ == world_.schedule().steps; }
  uint32_t taken_steps() const { return first_step_ + static_cast<uint32_t>(next_out_); }
  uint64_t listed() const { return listed_; }  // addresses, a bit each
  bool is_owed(uint32_t connection) const;     // something was asked there and has not been answered
  uint32_t subscription = World::kNone;        // dialer
  int64_t stalled_until_ns = 0;                // takes nothing
  int stall_fault = -1;
  int64_t stopped_until_ns = 0;  // does not run
  int64_t stopped_ns = 0;        // for how long
  int stop_fault = -1;

  void up(uint32_t dialer, uint32_t connection, uint32_t address, uint32_t hands);
  void down(uint32_t dialer, uint32_t connection);
  void hears(uint32_t connection, const Message& message);
  void kid_ready(uint32_t process, uint32_t connection, bool spare);
  void let_spare(bool take_part);
  void kid_dead(uint32_t process);
  void wake(uint32_t serial);
  void probe(uint32_t serial);
  void consume();
  void watch();
  std::optional<Sizing::Consumer> use() const;  // what its client would tell the dispatcher

 private:
  struct Endpoint {
    EndpointId id = 0;
    uint32_t connection = World::kNone;
    uint32_t process = World::kNone;  // of a child
    bool in_place = false, spare = false, draining = false, expelled = false;
    uint32_t next_request = 1;
    std::map<uint32_t, RangeId> asked;
    uint64_t rows = 0;
  };
  struct Range {
    uint32_t rows = 0;
    bool done = false, cancelled = false;
    int attempts = 0;
    std::vector<EndpointId> askers;
    std::set<EndpointId> withdrawn;  // spare ones that have been told to leave it
  };
  struct Batch {
    uint32_t position = 0, rows = 0;
    uint64_t bytes = 0;
    bool admitted = false, ready = false, failed = false, taken = false;
    uint32_t rows_left = 0;
    int64_t ready_ns = 0;
  };

  void push();
  void step(bool timed);
  void check(const Decisions& decisions);
  void check_cancels(const Decisions& decisions);
  void cancel_others(RangeId id);
  void check_admitted(BatchId id);
  void check_ask(const Ask& ask);
  bool was_stopped_briefly() const;
  void check_counts();
  void ask(const Ask& ask);
  void endpoint_gone(EndpointId id);
  void rows_came(Endpoint& endpoint, const Message& message);
  void row_failed(Endpoint& endpoint, const Message& message);
  void breached(const Endpoint& endpoint, const Message& message);
  void unit_came(RangeId id);
  void fail(BatchId id);
  void ready(BatchId id);
  void drop_asker(RangeId id, EndpointId endpoint);
  size_t helpers() const;                       // endpoints that are no spare ones
  size_t helpers_of(const Range& range) const;  // askers that are not
  void withdraw(RangeId id, Range& range);
  void forget_if_over(RangeId id);
  Endpoint* endpoint_of(uint32_t connection);
  std::string name(RangeId range) const;

  World& world_;
  const uint32_t index_, place_, ranks_;
  const uint32_t first_step_;
  uint32_t next_step_;
  Assigner assigner_;
  AssignOptions options_;
  Assigner::Counts counts_;
  std::map<EndpointId, Endpoint> endpoints_;
  EndpointId next_endpoint_ = 1;
  std::map<uint32_t, uint32_t> workers_;  // dialer by address
  uint64_t listed_ = 0;
  std::map<RangeId, Range> model_;                    // admitted, not both done and settled
  std::set<std::pair<RangeId, EndpointId>> cancels_;  // that the next decision must tell
  std::vector<Batch> batches_;                        // by BatchId
  size_t next_out_ = 0, next_admit_ = 0;
  uint64_t window_used_ = 0;
  uint64_t unit_estimate_ = kRowBytes;
  uint32_t wake_serial_ = 0;
  bool waits_ = true;  // the trainer, for a batch
  size_t cold_ = 0;    // the batch that was asked for when nothing else was
  int64_t first_taken_ns_ = -1, wait_since_ = -1, wait_ns_ = 0;
  uint64_t rows_taken_ = 0;
  bool over_ = false;
  bool spare_takes_part_ = true;
  int64_t lonely_since_ = 0, progress_ns_ = 0, able_since_ = -1, started_ns_ = 0;
  uint64_t timed_ = 0;
};

}  // namespace stoker::feed::simulation
