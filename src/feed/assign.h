// SPDX-License-Identifier: Apache-2.0
// Who computes what: batches are cut into ranges of rows, each is asked of an endpoint, asked again elsewhere
// when it is late or its endpoint is gone, and counts once. Pure: events, times and numbers come in as
// arguments, decisions go out as values; nothing here knows sockets, memory or threads.
//
// A batch is admitted (given memory) in order of pushing while the window has bytes; the lowest one not
// delivered is always admitted. Bytes that turn out to be more (units) make those that were admitted beyond
// the window wait. Endpoints are of three kinds: distant ones answer into memory that we hold,
// so a range may be with two of them (a hedge; the first answer wins); in-place ones (children) write into
// the slot itself, so a range is with one of them alone, and it gets the range's deadline: who misses it is
// expelled (killed), and only then is the range free. Spare ones (docs/decisions/spare-cores.md) are lent
// ranges that no other endpoint has room for, from so far ahead that they will be done before the others come
// there; who comes there first asks for it too, and the spare one is told to leave it. So all others are
// asked for what they would be asked for without spare ones, apart from what those have answered. Whoever has
// spare endpoints has none in place.
//
// Whoever calls decide() much later than wake_at() asked for was stopped itself: its clock stands still
// meanwhile, or all whose answers wait in the sockets would be late.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "feed/answer_times.h"
#include "feed/endpoint_pool.h"

namespace stoker::feed {

struct AssignOptions {
  uint64_t window_bytes = uint64_t{256} << 20;
  uint32_t request_rows = 16;           // at least; 0: a batch is one range (units)
  double hedge_factor = 3;              // late: older than this many times the 95th percentile…
  int64_t hedge_floor_ns = 50'000'000;  // …and than this
  int64_t deadline_ns = 0;              // of a range with a child; 0: by what ranges have taken so far
  int64_t lonely_ns = 60'000'000'000;   // without any endpoint: then give up
  int max_attempts = 8;
};

struct Ask {
  RangeId range;
  EndpointId endpoint = 0;
  bool operator==(const Ask&) const = default;
};

struct Decisions {
  std::vector<BatchId> admit;  // in order
  std::vector<Ask> ask;
  std::vector<Ask> cancel;        // need not bother: another has answered, or a spare one is to leave it
  std::vector<EndpointId> expel;  // children that missed their deadline; report lost() when they are dead
  std::string give_up;            // not empty: the stream has failed, and why
};

class Assigner {
 public:
  Assigner(AssignOptions options, int64_t now)
      : options_(options), pool_(options.request_rows), lonely_since_(now) {}

  // Endpoints come and go at any time.
  void joined(EndpointId id, bool in_place, uint32_t parallel, int64_t now);
  void spare_joined(EndpointId id, uint32_t parallel, int64_t now);
  void let_spare(bool take_part);  // not: nothing new is lent, and what is lent is withdrawn
  void someone_is_coming(int64_t now) { lonely_since_ = awake(now); }  // e.g. a child that still imports
  void draining(EndpointId id);  // finishes what it has, gets nothing new
  // What it was asked for is asked elsewhere. Returns ranges that have now failed too often.
  std::vector<RangeId> lost(EndpointId id, int64_t now);

  BatchId push(uint32_t rows, uint64_t bytes);
  void set_bytes(BatchId id, uint64_t bytes);  // once known better
  void delivered(BatchId id);                  // the user has it; its bytes leave the window
  void hurry(int64_t limit_ns);  // the lowest batch was waited for in vain: its deadline is this, if sooner

  enum class Verdict {
    kFirst,    // this answer counts
    kAgain,    // the range counted before: compare and drop
    kUnasked,  // nobody asked that endpoint
  };
  Verdict answered(RangeId range, EndpointId endpoint, int64_t now);
  void cancelled(RangeId range, EndpointId endpoint, int64_t now);
  enum class Failure { kRetried, kIgnored, kFinal };
  Failure failed(RangeId range, EndpointId endpoint, bool retry, int64_t now);

  Decisions decide(int64_t now);
  // When decide() is next due without an event, or up to 20 ms later, so that what falls due together is
  // decided together; nothing when only events matter.
  std::optional<int64_t> wake_at(int64_t now);

  bool done(BatchId id) const;  // all its ranges have counted
  bool answered_already(RangeId range) const;
  bool in_flight(RangeId range) const;  // somebody has been asked and has not answered
  uint32_t rows_of(RangeId range) const;
  int64_t patience_ns(RangeId range) const;  // how long a child may work on it
  struct Counts {
    uint64_t asked = 0, hedged = 0, retried = 0, dropped = 0, lost = 0, expelled = 0;
    // Of spare endpoints, in none of the above: what they were lent, what was withdrawn, rows that counted.
    uint64_t lent = 0, withdrawn = 0, spare_rows = 0;
  };
  const Counts& counts() const { return counts_; }
  struct EndpointView {
    double rows_per_s = 0;
    uint64_t outstanding_rows = 0;
    uint64_t answered_rows = 0;
  };
  std::optional<EndpointView> endpoint(EndpointId id) const;
  size_t endpoints() const { return pool_.size(); }  // without spare ones

 private:
  static constexpr int64_t kNone = -1;
  struct Asker {
    EndpointId endpoint;
    int64_t asked_ns;
    bool spare = false;
    bool cancelling = false;
  };
  struct Range {
    size_t helpers() const;       // askers that are no spare ones
    const Asker* helper() const;  // the first of them
    uint32_t rows = 0;
    bool done = false;
    int attempts = 0;
    int64_t hurried_ns = 0;
    std::vector<Asker> askers;
    std::set<EndpointId> failed_at;
    int64_t again_at_ns = 0;         // not before this at an endpoint where it failed
    int64_t alone_since_ns = kNone;  // asked of one distant endpoint only, spares apart: may be hedged
  };
  struct Batch {
    uint32_t rows = 0;
    uint64_t bytes = 0;
    uint32_t ranges_left = 0;
    bool delivered = false;
  };
  int64_t awake(int64_t now);  // the time that has passed for us: all that is kept here is of this clock
  void admit(Decisions& out);
  void look_at_window();
  bool nobody_waits() const;  // of those that may be asked for
  uint32_t range_rows(const Batch& batch) const;
  void ask_waiting(Decisions& out, int64_t now);
  void lend(Decisions& out, int64_t now);
  std::optional<RangeId> to_lend(EndpointId spare) const;
  void withdraw(RangeId id, Range& range);
  void hedge(Decisions& out, int64_t now);
  void check_deadlines(Decisions& out, int64_t now);
  void ask(RangeId id, Range& range, EndpointId endpoint, Decisions& out, int64_t now);
  EndpointId choose(const Range& range, int64_t now);
  void hedge_one(RangeId id, Range& range, bool idle_only, Decisions& out, int64_t now);
  void settle(RangeId id, Range& range, EndpointId endpoint, int64_t now, bool measured);
  void askers_changed(RangeId id, Range& range);
  void forget_if_over(RangeId id);
  int64_t hedge_age_ns() const;
  int64_t head_hedge_age_ns() const;
  int64_t deadline_for(const Range& range) const;
  int64_t deadline_ns(EndpointId child) const;  // when it comes; INT64_MAX: has nothing to do

  AssignOptions options_;
  EndpointPool pool_;
  std::map<BatchId, Batch> batches_;  // from push to delivered
  std::map<RangeId, Range> ranges_;   // admitted, and not yet both done and settled with every asker
  std::set<RangeId> waiting_;         // nobody has been asked but spare ones
  bool spare_takes_part_ = true;
  std::set<std::pair<int64_t, RangeId>> again_;  // when those that failed may go where they failed
  std::set<std::pair<int64_t, RangeId>> alone_;  // since when; not yet late
  std::set<RangeId> late_;                       // alone for too long
  std::vector<Ask> cancels_;
  BatchId next_batch_ = 0;
  BatchId next_admit_ = 0;
  BatchId ask_below_ = 0;  // batches from here on do not fit the window any more
  uint64_t window_used_ = 0;
  int64_t lonely_since_;
  int64_t slept_ns_ = 0;
  int64_t called_ns_ = 0, promised_ns_ = kNone;  // by the caller's clock
  uint32_t hedges_out_ = 0;
  AnswerTimes times_;
  Counts counts_;
};

}  // namespace stoker::feed
