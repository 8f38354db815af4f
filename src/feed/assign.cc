// SPDX-License-Identifier: Apache-2.0
#include "feed/assign.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "feed/protocol.h"

namespace stoker::feed {
namespace {
constexpr int64_t kTogetherNs = 20'000'000;   // timed decisions are at least so far apart
constexpr int64_t kAsleepNs = 1'000'000'000;  // called so much later than asked for: we were stopped
constexpr int64_t kFailedPauseNs =
    25'000'000;                     // doubled with each failure: what could not be read may be soon
constexpr double kRequestNs = 1e6;  // a request is about so much work of one hand, where rows are quick…
constexpr uint64_t kRequestBytes = 2 << 20;  // …and no more than this, so that it stays in cache
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}  // namespace

// ---- events

int64_t Assigner::awake(int64_t now) {
  if (promised_ns_ != kNone && now > promised_ns_ + kAsleepNs) {
    // What was due then is due a little later, when all that has come meanwhile has been read.
    slept_ns_ += now - std::max(promised_ns_ - kTogetherNs, called_ns_);
    promised_ns_ = kNone;
  }
  called_ns_ = now;
  return now - slept_ns_;
}

void Assigner::joined(EndpointId id, bool in_place, uint32_t parallel, int64_t now) {
  pool_.joined(id, in_place, parallel, awake(now));
}

void Assigner::spare_joined(EndpointId id, uint32_t parallel, int64_t now) {
  pool_.spare_joined(id, parallel, awake(now));
}

void Assigner::draining(EndpointId id) { pool_.draining(id); }

std::vector<RangeId> Assigner::lost(EndpointId id, int64_t now) {
  now = awake(now);
  std::vector<RangeId> hopeless;
  if (!pool_.find(id)) return hopeless;
  const bool is_spare = pool_.at(id).spare;
  // One that drained and has nothing left has ended in order.
  counts_.lost += !is_spare && !(pool_.at(id).draining && pool_.at(id).asked.empty());
  // A child dies of what it is at. What waits behind that was not tried: its sample ended nobody.
  std::optional<RangeId> at_hand;
  if (const auto& child = pool_.at(id); child.in_place && !child.asked.empty())
    at_hand = child.asked.begin()->second;
  for (RangeId range_id : pool_.remove(id)) {
    Range& range = ranges_.at(range_id);
    const bool was_tried = !at_hand || range_id == *at_hand;
    if (!is_spare && range.helpers() > 1) --hedges_out_;
    std::erase_if(range.askers, [&](const Asker& one) { return one.endpoint == id; });
    askers_changed(range_id, range);
    if (range.done) {
      forget_if_over(range_id);
    } else if (!is_spare && range.helpers() == 0) {
      ++counts_.retried;
      waiting_.insert(range_id);
      if (was_tried && ++range.attempts >= options_.max_attempts) hopeless.push_back(range_id);
    }
  }
  if (!is_spare && pool_.size() == 0) lonely_since_ = now;
  return hopeless;
}

BatchId Assigner::push(uint32_t rows, uint64_t bytes) {
  batches_.emplace(next_batch_, Batch{rows, bytes, 0, false});
  return next_batch_++;
}

void Assigner::set_bytes(BatchId id, uint64_t bytes) {
  auto found = batches_.find(id);
  if (found == batches_.end()) return;
  if (id < next_admit_) window_used_ += bytes - found->second.bytes;
  found->second.bytes = bytes;
}

void Assigner::delivered(BatchId id) {
  auto found = batches_.find(id);
  if (found == batches_.end()) return;
  window_used_ -= found->second.bytes;
  batches_.erase(found);
  // A failed batch is delivered as its error: what is still open of it is of no use to anybody.
  for (auto at = ranges_.lower_bound({id, 0}); at != ranges_.end() && at->first.batch == id;) {
    Range& range = at->second;
    waiting_.erase(at->first);
    range.done = true;
    askers_changed(at->first, range);
    for (Asker& asker : range.askers)
      if (!std::exchange(asker.cancelling, true)) cancels_.push_back({at->first, asker.endpoint});
    at = range.askers.empty() ? ranges_.erase(at) : std::next(at);
  }
}

void Assigner::hurry(int64_t limit_ns) {
  if (batches_.empty()) return;
  BatchId head = batches_.begin()->first;
  for (auto at = ranges_.lower_bound({head, 0}); at != ranges_.end() && at->first.batch == head; ++at)
    at->second.hurried_ns = limit_ns;
}

void Assigner::settle(RangeId id, Range& range, EndpointId endpoint, int64_t now, bool measured) {
  auto asker = std::find_if(range.askers.begin(), range.askers.end(),
                            [&](const Asker& one) { return one.endpoint == endpoint; });
  if (asker == range.askers.end()) return;
  if (!asker->spare && range.helpers() > 1) --hedges_out_;
  pool_.settle(endpoint, id, range.rows, asker->asked_ns, now, measured);
  if (measured && !asker->spare) times_.note(now - asker->asked_ns);
  range.askers.erase(asker);
  askers_changed(id, range);
}

// Keeps `alone_` and `late_` what they say.
void Assigner::askers_changed(RangeId id, Range& range) {
  int64_t since = kNone;
  if (!range.done && range.helpers() == 1 && !pool_.at(range.helper()->endpoint).in_place)
    since = range.helper()->asked_ns;
  if (since == range.alone_since_ns) return;
  if (range.alone_since_ns != kNone && alone_.erase({range.alone_since_ns, id}) == 0) late_.erase(id);
  range.alone_since_ns = since;
  if (since != kNone) alone_.emplace(since, id);
}

void Assigner::forget_if_over(RangeId id) {
  auto found = ranges_.find(id);
  if (found != ranges_.end() && found->second.done && found->second.askers.empty()) ranges_.erase(found);
}

Assigner::Verdict Assigner::answered(RangeId id, EndpointId endpoint, int64_t now) {
  now = awake(now);
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return Verdict::kUnasked;
  Range& range = found->second;
  bool asked = std::any_of(range.askers.begin(), range.askers.end(),
                           [&](const Asker& one) { return one.endpoint == endpoint; });
  if (!asked) return Verdict::kUnasked;
  settle(id, range, endpoint, now, true);
  const bool is_spare = pool_.at(endpoint).spare;
  if (range.done) {
    counts_.dropped += !is_spare;
    forget_if_over(id);
    return Verdict::kAgain;
  }
  if (is_spare) counts_.spare_rows += range.rows;
  range.done = true;
  waiting_.erase(id);
  askers_changed(id, range);
  if (auto batch = batches_.find(id.batch); batch != batches_.end()) --batch->second.ranges_left;
  for (Asker& other : range.askers)
    if (!std::exchange(other.cancelling, true)) cancels_.push_back({id, other.endpoint});
  forget_if_over(id);
  return Verdict::kFirst;
}

void Assigner::cancelled(RangeId id, EndpointId endpoint, int64_t now) {
  now = awake(now);
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return;
  settle(id, found->second, endpoint, now, false);
  if (!found->second.done && found->second.helpers() == 0) waiting_.insert(id);
  forget_if_over(id);
}

Assigner::Failure Assigner::failed(RangeId id, EndpointId endpoint, bool retry, int64_t now) {
  now = awake(now);
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return Failure::kIgnored;
  Range& range = found->second;
  settle(id, range, endpoint, now, false);
  if (range.done) {
    forget_if_over(id);
    return Failure::kIgnored;
  }
  range.failed_at.insert(endpoint);
  if (const auto* who = pool_.find(endpoint); who && who->spare) return Failure::kIgnored;
  if (!retry || ++range.attempts >= options_.max_attempts) return Failure::kFinal;
  ++counts_.retried;
  range.again_at_ns = now + (kFailedPauseNs << std::min(range.attempts, 6));
  again_.emplace(range.again_at_ns, id);
  if (range.helpers() == 0) waiting_.insert(id);
  return Failure::kRetried;
}

// ---- what is known

bool Assigner::done(BatchId id) const {
  auto found = batches_.find(id);
  return found != batches_.end() && id < next_admit_ && found->second.ranges_left == 0;
}

bool Assigner::answered_already(RangeId id) const {
  auto found = ranges_.find(id);
  return found == ranges_.end() || found->second.done;
}

bool Assigner::in_flight(RangeId id) const {
  auto found = ranges_.find(id);
  return found != ranges_.end() && !found->second.askers.empty();
}

uint32_t Assigner::rows_of(RangeId id) const {
  auto found = ranges_.find(id);
  return found == ranges_.end() ? 0 : found->second.rows;
}

std::optional<Assigner::EndpointView> Assigner::endpoint(EndpointId id) const {
  const EndpointPool::Endpoint* one = pool_.find(id);
  if (!one) return {};
  return EndpointView{one->rows_per_ns() * 1e9, one->outstanding_rows, one->answered_rows};
}

int64_t Assigner::hedge_age_ns() const {
  return std::max(options_.hedge_floor_ns,
                  static_cast<int64_t>(options_.hedge_factor * static_cast<double>(times_.usual_ns())));
}

int64_t Assigner::head_hedge_age_ns() const {
  return std::max(options_.hedge_floor_ns, times_.usual_ns() * 5 / 4);
}

int64_t Assigner::deadline_for(const Range& range) const {
  if (options_.deadline_ns == 0) return times_.patience_ns(range.attempts, range.hurried_ns);
  return AnswerTimes::patience_ns(options_.deadline_ns, range.attempts, range.hurried_ns);
}

int64_t Assigner::patience_ns(RangeId id) const {
  auto found = ranges_.find(id);
  return found == ranges_.end() ? 0 : deadline_for(found->second);
}

int64_t Assigner::deadline_ns(EndpointId child) const {
  const EndpointPool::Endpoint& endpoint = pool_.at(child);
  if (endpoint.expelled || endpoint.asked.empty()) return kNever;
  // It has the lowest at hand of what it was asked first.
  return endpoint.working_since_ns() + deadline_for(ranges_.at(endpoint.asked.begin()->second));
}

// ---- decisions

EndpointId Assigner::choose(const Range& range, int64_t now) {
  return pool_.best({range.rows, &range.failed_at, now >= range.again_at_ns}, 2 * hedge_age_ns(), now);
}

void Assigner::ask(RangeId id, Range& range, EndpointId endpoint, Decisions& out, int64_t now) {
  pool_.ask(endpoint, id, range.rows, now);
  const bool is_spare = pool_.at(endpoint).spare;
  if (is_spare) {
    ++counts_.lent;
  } else {
    if (range.helpers() > 0) ++hedges_out_, ++counts_.hedged;
    ++counts_.asked;
    withdraw(id, range);
  }
  range.askers.push_back({endpoint, now, is_spare});
  askers_changed(id, range);
  out.ask.push_back({id, endpoint});
}

// Asking and answering cost tens of microseconds at both ends: rows that take one each are asked for by the
// hundred.
uint32_t Assigner::range_rows(const Batch& batch) const {
  if (options_.request_rows == 0) return batch.rows;
  uint64_t in_time = static_cast<uint64_t>(std::min(pool_.quickest_hand() * kRequestNs, 1e6));
  uint64_t in_cache = kRequestBytes / std::max<uint64_t>(1, batch.bytes / batch.rows);
  uint64_t step = std::min<uint64_t>({in_time, in_cache, batch.rows});
  if (step <= options_.request_rows) return options_.request_rows;
  uint64_t parts = (batch.rows + step - 1) / step;
  return static_cast<uint32_t>((batch.rows + parts - 1) / parts);
}

void Assigner::admit(Decisions& out) {
  while (next_admit_ < next_batch_) {
    Batch& batch = batches_.at(next_admit_);
    bool lowest = batches_.begin()->first == next_admit_;
    if (!lowest && window_used_ + batch.bytes > options_.window_bytes) return;
    window_used_ += batch.bytes;
    uint32_t step = range_rows(batch);
    pool_.expect_rows(step);
    for (uint32_t first = 0; first < batch.rows; first += step) {
      RangeId id{next_admit_, first};
      Range range;
      range.rows = std::min(step, batch.rows - first);
      ranges_.emplace(id, std::move(range));
      waiting_.insert(id);
      ++batch.ranges_left;
    }
    out.admit.push_back(next_admit_++);
  }
}

// Units may turn out larger than they were admitted for. What is then beyond the window waits for room.
void Assigner::look_at_window() {
  ask_below_ = next_admit_;
  if (window_used_ <= options_.window_bytes) return;
  uint64_t used = 0;
  for (const auto& [id, batch] : batches_) {
    used += batch.bytes;
    if (used <= options_.window_bytes || id == batches_.begin()->first) continue;
    ask_below_ = std::min(id, next_admit_);
    return;
  }
}

bool Assigner::nobody_waits() const { return waiting_.empty() || waiting_.begin()->batch >= ask_below_; }

void Assigner::ask_waiting(Decisions& out, int64_t now) {
  for (auto at = waiting_.begin(); at != waiting_.end() && at->batch < ask_below_ && pool_.has_room();) {
    RangeId id = *at;
    Range& range = ranges_.at(id);
    EndpointId endpoint = choose(range, now);
    if (endpoint == 0) {  // it has failed at those with room, a moment ago
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    ask(id, range, endpoint, out, now);
  }
}

void Assigner::hedge_one(RangeId id, Range& range, bool idle_only, Decisions& out, int64_t now) {
  EndpointPool::Wanted wanted{range.rows, &range.failed_at, false, range.helper()->endpoint, idle_only};
  if (EndpointId endpoint = pool_.best(wanted, 2 * hedge_age_ns(), now); endpoint != 0)
    ask(id, range, endpoint, out, now);
}

void Assigner::hedge(Decisions& out, int64_t now) {
  int64_t late_ns = hedge_age_ns(), head_late_ns = head_hedge_age_ns();
  for (; !alone_.empty() && now - alone_.begin()->first > late_ns; alone_.erase(alone_.begin()))
    late_.insert(alone_.begin()->second);
  if (pool_.size() < 2 || batches_.empty()) return;
  // When everything is slow, asking twice makes it slower: few at a time, the lowest first.
  size_t limit = std::max<size_t>(2, ranges_.size() / 8);
  auto age = [&](const Range& range) { return now - range.alone_since_ns; };
  BatchId head = batches_.begin()->first;
  bool any_old = !late_.empty() || (!alone_.empty() && now - alone_.begin()->first > head_late_ns);
  if (any_old && nobody_waits())
    for (auto at = ranges_.lower_bound({head, 0}); at != ranges_.end() && at->first.batch == head; ++at) {
      if (hedges_out_ >= limit) break;
      Range& range = at->second;
      if (range.alone_since_ns == kNone || age(range) <= head_late_ns) continue;
      bool idle_only = age(range) <= late_ns;
      if (!idle_only || pool_.has_idle()) hedge_one(at->first, range, idle_only, out, now);
    }
  for (auto at = late_.begin(); at != late_.end() && hedges_out_ < limit && pool_.has_room();) {
    RangeId id = *at++;  // whichever way, it may leave the set
    Range& range = ranges_.at(id);
    if (age(range) > late_ns) {
      hedge_one(id, range, false, out, now);
    } else {  // answers have begun to take longer
      late_.erase(id);
      alone_.emplace(range.alone_since_ns, id);
    }
  }
}

void Assigner::check_deadlines(Decisions& out, int64_t now) {
  for (EndpointId id : pool_.children()) {
    if (int64_t deadline = deadline_ns(id); deadline == kNever || now <= deadline) continue;
    pool_.expelled(id);
    ++counts_.expelled;
    out.expel.push_back(id);
  }
}

Decisions Assigner::decide(int64_t now) {
  now = awake(now);
  Decisions out;
  admit(out);
  look_at_window();
  ask_waiting(out, now);
  lend(out, now);
  hedge(out, now);
  check_deadlines(out, now);
  while (!again_.empty() && again_.begin()->first <= now) again_.erase(again_.begin());
  out.cancel.swap(cancels_);
  // Only for askers that are still there and have not answered since.
  std::erase_if(out.cancel, [&](const Ask& cancel) {
    auto found = ranges_.find(cancel.range);
    return found == ranges_.end() ||
           std::none_of(found->second.askers.begin(), found->second.askers.end(),
                        [&](const Asker& one) { return one.endpoint == cancel.endpoint; });
  });
  if (pool_.size() == 0 && !waiting_.empty() && now - lonely_since_ > options_.lonely_ns)
    out.give_up =
        "no feed worker could be reached for " + std::to_string(options_.lonely_ns / 1'000'000) + " ms";
  return out;
}

// Only what time alone brings about: who finds no room now waits for an event.
std::optional<int64_t> Assigner::wake_at(int64_t now) {
  now = awake(now);
  int64_t wake = kNever;
  if (pool_.size() == 0) {
    if (!waiting_.empty()) wake = lonely_since_ + options_.lonely_ns + 1;
  } else {
    if (!again_.empty()) wake = again_.begin()->first;
    for (EndpointId child : pool_.children())
      if (int64_t deadline = deadline_ns(child); deadline != kNever) wake = std::min(wake, deadline + 1);
    if (pool_.size() > 1 && !alone_.empty())
      wake = std::min(wake, alone_.begin()->first + hedge_age_ns() + 1);
    if (pool_.has_idle() && nobody_waits() && !batches_.empty()) {
      BatchId head = batches_.begin()->first;
      for (auto at = ranges_.lower_bound({head, 0}); at != ranges_.end() && at->first.batch == head; ++at) {
        if (at->second.alone_since_ns == kNone) continue;
        int64_t late = at->second.alone_since_ns + head_hedge_age_ns() + 1;
        if (late > now) wake = std::min(wake, late);
      }
    }
  }
  promised_ns_ = wake == kNever ? kNone : std::max(wake, now + kTogetherNs) + slept_ns_;
  if (promised_ns_ == kNone) return {};
  return promised_ns_;
}

}  // namespace stoker::feed
