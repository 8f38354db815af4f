// SPDX-License-Identifier: Apache-2.0
// The worker's inside; for worker*.cc only. Confined to the loop's thread, but for Job (made there, filled by
// executor threads, one at a time per row) and the atomics.
#pragma once

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "base/guarded.h"
#include "feed/answer_times.h"
#include "feed/child_link.h"
#include "feed/dispatcher_link.h"
#include "feed/fair_queue.h"
#include "feed/pillow.h"
#include "feed/worker.h"
#include "pipeline/executor.h"
#include "wire/acceptor.h"

namespace stoker::feed {

class WorkerCore;
class PythonPool;
struct Job;

// A plan that has been opened, shared by the sessions that use it: equal plans are opened once.
struct OpenPlan {
  std::string key;
  std::unique_ptr<pipeline::Producer> producer;  // native
  Layout layout;
  std::unique_ptr<PythonPool> pool;  // Python
  bool ready = false;
  std::optional<Fault> refused;
  int64_t idle_since_ns = 0;
};

// One connection: a client over TCP, or the parent.
class Session : public wire::LinkHandler, public std::enable_shared_from_this<Session> {
 public:
  Session(WorkerCore& core, std::string token, bool local);
  Status start(wire::Loop& loop, UniqueFd socket);
  wire::Link& link() { return *link_; }
  std::shared_ptr<wire::Link> shared_link() { return link_; }
  bool local() const { return local_; }
  bool through() const { return local_ || handshake_.through(); }
  void plan_decided(const std::shared_ptr<OpenPlan>& plan);

  std::map<uint32_t, std::shared_ptr<OpenPlan>> plans;
  std::map<uint32_t, std::shared_ptr<Job>> jobs;  // by request; from REQUEST to the answer
  size_t admitted = 0;
  int64_t since_ns = 0;
  std::atomic<int64_t> told_times_ns = 0;  // from any of the threads that make rows

 private:
  Result<std::vector<wire::Piece>> on_header(wire::Link& link, const wire::Header& header) override;
  Status on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_closed(wire::Link& link, const Error& error) override;
  Status on_plan(const wire::Header& header, ByteView payload);
  Status on_request(const wire::Header& header, ByteView payload);
  Status on_slot(const wire::Header& header);
  void answer_plan(uint32_t number, const OpenPlan& plan);

  WorkerCore& core_;
  const bool local_;
  Handshake handshake_;
  std::shared_ptr<wire::Link> link_;
  std::map<uint64_t, std::shared_ptr<Mapping>> slots_;  // shared with jobs that write there
};

// One request. `buffer` or `slot` holds the rows; a unit job has neither before it is done.
struct Job {
  std::shared_ptr<Session> session;
  std::shared_ptr<OpenPlan> plan;
  uint32_t plan_number = 0, request = 0;
  uint64_t batch = 0, arrival = 0;
  std::vector<Ref> refs;
  bool unit = false;

  uint64_t bytes = 0;  // counted in the core's budget while this lives and is `charged`
  bool charged = false;
  bool admitted = false;  // rows are being made
  std::atomic<uint64_t>* budget = nullptr;
  std::function<void()> on_freed;
  std::once_flag opened;  // by the thread that makes its first row
  wire::SlotRef buffer;
  std::shared_ptr<Mapping> slot;
  uint8_t* base = nullptr;
  std::vector<uint64_t> leaf_at;  // of this request's first row, from base
  std::vector<uint64_t> hashes;
  std::atomic<uint32_t> rows_left = 0;
  std::atomic<bool> cancelled = false;
  std::atomic<bool> failed = false;
  Guarded<Fault> fault;
  Guarded<RowCounts> counts;
  int64_t cancelled_ns = 0;  // of a unit at a child
  int attempts = 0;          // of a unit whose child died
  int64_t hurried_ns = 0;    // a unit that was waited for in vain: so long a child may be at it

  // A place for the rows, taken no sooner than they are made: few places, used in turns, stay in cache.
  Status open_buffer(wire::SlotPool& pool);

  ~Job();
};

using JobQueue = FairQueue<Job>;

// The Python children of one plan. Each has one unit at a time.
class PythonPool : public ChildHandler {
 public:
  PythonPool(WorkerCore& core, OpenPlan& plan, std::shared_ptr<const SentPlan> sent_plan);
  ~PythonPool() override;
  Status start(int children, const std::vector<std::string>& python);
  void add(std::shared_ptr<Job> job);
  void cancel(const std::shared_ptr<Job>& job);
  void hurry(Job& job, int64_t limit_ns) { job.hurried_ns = std::max<int64_t>(1, limit_ns); }
  // Children that still work on what nobody wants any more, or that hang: have been at a unit for too long.
  void kill_stuck(int64_t now);
  void fill();  // gives waiting units to idle children
  uint32_t size() const { return static_cast<uint32_t>(kids_.size()); }
  int64_t cpu_ns() const;

 private:
  struct Kid {
    wire::ChildCommand command;
    std::unique_ptr<ChildLink> link;
    std::shared_ptr<Job> job;
    uint32_t request = 0;
    int64_t begun_ns = 0;  // with the job
    bool told_late = false;
    int deaths = 0;  // without an answer between
    int64_t cpu_ns = 0;
    std::optional<wire::Loop::Timer> restart;
  };
  Kid& kid_of(ChildLink& link);
  Status start(Kid& kid);
  void start_again(Kid& kid);
  void kill(Kid& kid, const std::string& why);
  void look_for_hung(Kid& kid, int64_t now);
  void send_fault(const Job& job, const std::string& what);
  void fail_waiting_if_nobody_comes(const std::string& what);
  std::shared_ptr<Job> take(Kid& kid, uint32_t request);
  void answered(const std::shared_ptr<Job>& job);
  void on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) override;
  void on_child_refused(ChildLink& child, const Fault& fault) override;
  void on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                     const RowCounts& counts) override;
  void on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                     uint64_t hash) override;
  void on_child_error(ChildLink& child, uint32_t request, const Fault& fault) override;
  void on_child_cancelled(ChildLink& child, uint32_t request) override;
  void on_child_gone(ChildLink& child, const std::string& how) override;

  WorkerCore& core_;
  OpenPlan& plan_;
  std::shared_ptr<const SentPlan> sent_plan_;
  std::shared_ptr<wire::SlotPool> pool_;
  std::vector<Kid> kids_;
  JobQueue waiting_;
  uint32_t next_request_ = 1;
  uint64_t estimate_ = 1 << 20;
  AnswerTimes times_;
  int64_t looked_ns_ = 0;  // for hung ones
};

class WorkerCore {
 public:
  explicit WorkerCore(WorkerOptions options);
  ~WorkerCore();
  Status open();
  void run();
  void drain();
  void stop() { loop_->stop(); }
  std::string address() const { return address_; }

  wire::Loop& loop() { return *loop_; }
  const WorkerOptions& options() const { return options_; }
  // From sessions.
  std::shared_ptr<OpenPlan> open_plan(std::string json, std::vector<uint8_t> attachment);
  void plan_decided(const std::shared_ptr<OpenPlan>& plan);
  void add_job(std::shared_ptr<Job> job);
  void cancel_job(const std::shared_ptr<Job>& job);
  void job_answered(const std::shared_ptr<Job>& job);
  void tell_times(Session& session, const pipeline::Producer& producer);
  void session_over(Session& session);
  bool within_budget(const Job& job) const;
  void count_samples(uint64_t n) { samples_ += n; }
  void set_pace(uint64_t millionths);
  void count_error(const Fault& fault);  // that a client is told of; any thread
  void count_hung();                     // one more child that was killed for it
  void count_refused_token() { ++refused_tokens_; }
  std::shared_ptr<OpenPlan> plan_of(const std::string& key) const;
  void refuse_later(
      const std::string& key);            // tells sessions, then lets the plan go; not inside its own call
  void charge(Job& job, uint64_t bytes);  // counts against the budget until the job is gone

 private:
  void accept(UniqueFd socket);
  void let_idle_pools_go();
  void admit();
  bool may_begin(const Job& job) const;
  void count_making(const Job& job, int change);
  Status begin(const std::shared_ptr<Job>& job);
  void refuse(const std::shared_ptr<Job>& job, const Error& error);
  void run_rows(const std::shared_ptr<Job>& job, uint32_t first, uint32_t last, pipeline::Scratch& scratch);
  void rest_after(const Job& job, int64_t busy_ns) const;
  void finish_rows(const std::shared_ptr<Job>& job);
  void tick();
  void drain_step();
  void drain_soon();
  void write_telemetry();
  ErrorCounts errors();  // so far
  int64_t cpu_ns() const;
  void report();  // to every dispatcher that is up

  WorkerOptions options_;
  std::shared_ptr<const Pillow> pillow_;  // shared with the plans opened; none without Python
  std::string address_;
  std::unique_ptr<wire::Loop> loop_;
  std::unique_ptr<wire::Acceptor> acceptor_;
  std::shared_ptr<wire::SlotPool> buffers_;
  std::atomic<uint64_t> used_bytes_ = 0;
  std::atomic<bool> admission_blocked_ = false;
  std::atomic<int> making_ = 0;  // requests whose rows are being made into buffers of ours
  std::atomic<uint64_t> making_bytes_ = 0;
  std::atomic<uint64_t> samples_ = 0;
  std::atomic<uint64_t> pace_ = kFullPace;  // of each thread, as the parent told last
  Guarded<ErrorCounts> errors_;
  uint64_t refused_tokens_ = 0;
  uint64_t sent_before_ = 0;  // bytes, to clients that are gone
  uint64_t arrivals_ = 0;
  uint64_t begun_ = 0;
  std::set<std::shared_ptr<Session>> sessions_;
  std::map<std::string, std::shared_ptr<OpenPlan>> plans_;
  JobQueue waiting_;
  std::vector<std::unique_ptr<DispatcherLink>> dispatchers_;
  UniqueFd telemetry_;
  bool draining_ = false;
  int64_t drain_until_ns_ = 0;
  double cores_ = 0;                              // it may use
  std::unique_ptr<pipeline::Executor> executor_;  // last: its threads use all of the above
};

}  // namespace stoker::feed
