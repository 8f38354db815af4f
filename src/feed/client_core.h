// SPDX-License-Identifier: Apache-2.0
// The client's inside: everything that its thread does. client.h is the contract; this header is for
// client*.cc only.
//
// Confined to the loop's thread but for `shared_` (a Guarded) and what client.cc calls: push(), next(),
// stats().
#pragma once

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <variant>

#include "base/guarded.h"
#include "feed/child_link.h"
#include "feed/client.h"
#include "feed/dialer.h"
#include "feed/spare_workers.h"

namespace stoker::feed {

class ClientCore;

Fault fault_of(Error error);

// A distant worker with our plan. The core decides; this one talks.
class DistantWorker : public DialerHandler {
 public:
  DistantWorker(ClientCore& core, wire::Loop& loop, const std::string& address, const std::string& token);
  void start(wire::Overlap& starved) {
    dialer_.count_starved(starved);
    dialer_.start();
  }
  const std::string& address() const { return dialer_.address(); }
  bool up() const { return dialer_.up(); }
  bool may_come() const;  // it is about to take our plan
  // It makes our samples, or may yet: it has refused neither our token nor our plan.
  bool may_serve() const { return endpoint != 0 || may_come() || (!up() && !denied_); }
  void ask(uint32_t request, uint64_t batch, const std::vector<Ref>& refs, bool unit);
  void cancel(uint32_t request);
  void hurry(uint32_t request, int64_t limit_ns);
  void discard_rows() { dialer_.link().discard_rest(1); }  // what comes first is their table
  uint64_t received_bytes() const { return dialer_.received_bytes(); }
  EndpointId endpoint = 0;  // 0: not (yet) of use

 private:
  void on_up() override;
  Result<std::vector<wire::Piece>> on_message_header(const wire::Header& header) override;
  Status on_message(const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_down(const Error& error, bool ended) override;
  void on_problem(const Error& error) override;
  void on_refused(const Error& error) override;
  ClientCore& core_;
  Dialer dialer_;
  bool refused_ = false;    // our plan
  bool denied_ = false;     // our token
  int64_t planned_ns_ = 0;  // when it was given our plan
};

// The connection to the dispatcher: hears which workers there are.
class Subscription : public DialerHandler {
 public:
  Subscription(ClientCore& core, wire::Loop& loop, const std::string& address, const std::string& token);
  void start() { dialer_.start(); }
  void tell(const std::string& json);  // how its loop fares; where it is up

 private:
  void on_up() override;
  Result<std::vector<wire::Piece>> on_message_header(const wire::Header& header) override;
  Status on_message(const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_down(const Error&, bool) override {}
  void on_problem(const Error& error) override;
  void on_refused(const Error& error) override;
  ClientCore& core_;
  Dialer dialer_;
  bool denied_ = false;
};

class ClientCore : public ChildHandler {
 public:
  explicit ClientCore(ClientOptions options);
  ~ClientCore() override;
  Status start();
  void close();

  // Any thread.
  Status push(uint64_t id, std::vector<Ref> refs);
  std::variant<Batch, NextError> next(int64_t deadline_ns);
  ClientStats stats();
  void hurry(int64_t limit_ns);

  // From the connections, in the loop's thread.
  const std::shared_ptr<const SentPlan>& plan() const { return plan_; }
  int64_t plan_ns() const { return options_.plan_ns; }
  void worker_ready(DistantWorker& worker, const Json& reply, uint32_t parallel);
  void worker_refused(DistantWorker& worker, const Fault& fault);
  void worker_down(DistantWorker& worker, const Error& error);
  void token_denied(const Error& error, bool by_dispatcher);  // by one more
  void worker_drains(DistantWorker& worker);
  void worker_error(DistantWorker& worker, uint32_t request, Fault fault);
  void worker_cancelled(DistantWorker& worker, uint32_t request);
  Result<std::vector<wire::Piece>> answer_target(DistantWorker& worker, const wire::Header& header);
  Status answer_came(DistantWorker& worker, const wire::Header& header, std::span<const uint64_t> hashes);
  void view_changed(const std::vector<std::string>& addresses);
  void sizing_told(std::string json) { sizing_ = std::move(json); }
  void problem(const std::string& text);

  // From the spare workers, in the loop's thread.
  void let_spare(bool take_part);
  bool is_asked(EndpointId id) const;  // for something, and has not answered
  void spare_ready(SpareWorkers::Kid& kid, const Json& reply);
  void spare_rows(SpareWorkers::Kid& kid, uint32_t request, wire::Slot& slot,
                  const std::vector<uint64_t>& hashes, const RowCounts& counts);
  void spare_unit(SpareWorkers::Kid& kid, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                  uint64_t hash);
  void spare_failed(SpareWorkers::Kid& kid, uint32_t request);
  void spare_cancelled(SpareWorkers::Kid& kid, uint32_t request);
  void spare_gone(EndpointId id, const std::string& why);

 private:
  struct Open {  // a batch from push to the moment it is ready
    uint64_t id = 0;
    std::vector<Ref> refs;
    wire::SlotRef slot;
    uint64_t unit_bytes = 0;
    std::vector<uint64_t> hashes;  // rows × leaves, or one
  };
  struct Ready {
    std::variant<Batch, NextError> outcome;
    Hash128 term;
    bool ascending = true;
    uint64_t first_position = 0, last_position = 0;
  };
  struct Shared {
    std::map<BatchId, Ready> ready;
    BatchId next_push = 0, next_out = 0;
    std::optional<NextError> over;
    bool closed = false;
    ClientStats stats;
    Hash128 digest;
    std::optional<uint64_t> last_position;
    BatchId cold = 0;  // was asked for when nothing else was: what it takes is latency, not a lack of workers
    int64_t first_out_ns = 0, wait_ns = 0;
    int64_t waiting_since_ns = 0;  // 0: nobody is in next()
    int64_t waited_ns(int64_t now) const {
      return wait_ns + (waiting_since_ns != 0 ? now - waiting_since_ns : 0);
    }
  };
  struct Kid {
    wire::ChildCommand command;
    std::unique_ptr<ChildLink> link;
    EndpointId endpoint = 0;
    int deaths = 0;              // since it last answered; of one that was idle: since anybody did
    uint64_t answers_then = 0;   // of all children, when it died last
    int idle_deaths = 0;         // in a row
    int64_t again_ns = 0;        // it is started again then, while it has no link
    int64_t cpu_ns = 0;          // of dead predecessors
    std::string times;           // as it told last
    int64_t at_it_since_ns = 0;  // with the oldest that it was asked for
    bool told_late = false;
  };
  using Who = std::variant<DistantWorker*, Kid*, SpareWorkers::Kid*>;
  struct Endpoint {
    Who who;
    std::map<uint32_t, RangeId> asked;
    uint32_t next_request = 1;
    // Of the answer that is coming in (distant only).
    std::vector<uint64_t> table;
    wire::SlotRef incoming;
    bool in_place = false;
    bool dropped = false;
  };

  // client_core.cc
  void step();
  void ask(const Ask& ask);
  void tick();
  void finish(BatchId id);
  void fail_batch(BatchId id, Fault fault);
  void tell_samples(Fault& fault, RangeId range) const;  // the first of them, and how many they are
  void fail_stream(Fault fault);
  void hurry_distant(int64_t limit_ns);
  void rows_counted(RangeId range, const std::vector<uint64_t>& table);
  void unit_size_known(BatchId id, uint64_t bytes);
  bool same_as_before(RangeId range, const std::vector<uint64_t>& table);
  void range_failed(EndpointId id, uint32_t request, const Fault& fault);
  void range_cancelled(EndpointId id, uint32_t request);
  // Of a process of ours: a unit as it answered, and whether a row in its slot has these hashes, one per
  // leaf.
  void unit_made(RangeId range, Assigner::Verdict verdict, wire::SlotRef slot, uint64_t bytes, uint64_t hash);
  bool row_is_whole(wire::Slot& slot, const std::vector<uint64_t>& offsets, size_t row,
                    const uint64_t* hashes) const;
  void endpoint_gone(EndpointId id, const std::string& why);
  Status take_layout(const Json& reply);
  EndpointId join(Who who, bool in_place, uint32_t parallel);
  std::vector<Ref> refs_of(RangeId range) const;
  void publish_stats();
  void tell_dispatcher(int64_t now);

  // client_workers.cc
  bool somebody_may_serve() const;

  // client_spare.cc
  Status ask_spare(SpareWorkers::Kid& kid, uint32_t request, RangeId range, const std::vector<Ref>& refs);
  void compare_cpu(const DistantWorker& worker, const Json& reply);

  // client_answers.cc
  bool is_intact(const Endpoint& endpoint, const wire::Header& header,
                 std::span<const uint64_t> hashes) const;
  void copy_rows(RangeId range, size_t rows, wire::Slot& from_slot);

  // client_children.cc
  Status start_kid(Kid& kid);
  void kid_died(Kid& kid, const std::string& how);
  void answered(Kid& kid);
  void goes_on(Kid& kid);
  void start_rested_kids(int64_t now);
  void tell_of_late_kids(int64_t now);
  Kid* kid_of(ChildLink& link);
  std::optional<RangeId> take_asked(EndpointId id, uint32_t request);
  bool worth_checking();
  void on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) override;
  void on_child_refused(ChildLink& child, const Fault& fault) override;
  void on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                     const RowCounts& counts) override;
  void on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                     uint64_t hash) override;
  void on_child_error(ChildLink& child, uint32_t request, const Fault& fault) override;
  void on_child_cancelled(ChildLink& child, uint32_t request) override;
  void on_child_gone(ChildLink& child, const std::string& how) override;
  void on_child_times(ChildLink& child, std::string_view json) override;

  ClientOptions options_;
  std::shared_ptr<const SentPlan> plan_;
  std::unique_ptr<wire::Loop> loop_;
  std::shared_ptr<wire::SlotPool> pool_;
  // What hedges and spare workers make. Apart: what others make takes no descriptors because of these.
  std::shared_ptr<wire::SlotPool> scratch_;
  std::optional<Layout> layout_;
  Assigner assigner_;
  std::map<BatchId, Open> open_;
  std::map<RangeId, EndpointId> receiving_;           // who fills the slot's rows right now
  std::map<RangeId, std::vector<uint64_t>> compare_;  // hashes of what counted, while another answer may come
  std::map<EndpointId, Endpoint> endpoints_;
  EndpointId next_endpoint_ = 1;
  wire::Overlap starved_;  // outlives the workers, whose links count there
  std::map<std::string, std::unique_ptr<DistantWorker>> workers_;
  std::set<std::string> listed_;
  std::unique_ptr<Subscription> subscription_;
  std::vector<Kid> kids_;
  std::unique_ptr<SpareWorkers> spare_;
  std::vector<std::string> ended_times_;  // of dead ones
  uint64_t unit_estimate_ = 1 << 20;
  uint64_t seen_from_children_ = 0;
  uint64_t child_answers_ = 0;
  int64_t looked_at_kids_ns_ = 0;
  uint64_t corrupt_ = 0, disagreed_ = 0;
  ErrorCounts errors_;    // that nobody else counts
  RowCounts row_counts_;  // of the answers that counted
  std::string problem_;
  std::string sizing_;  // as the dispatcher told last
  std::string denial_;  // the last one of our token
  bool over_ = false;
  std::optional<wire::Loop::Timer> wake_;
  std::thread thread_;
  Guarded<Shared> shared_;
};

}  // namespace stoker::feed
