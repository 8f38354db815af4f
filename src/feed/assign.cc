// SPDX-License-Identifier: Apache-2.0
#include "feed/assign.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "feed/protocol.h"

namespace stoker::feed {
namespace {
constexpr size_t kRecent = 64;
constexpr int64_t kRetryNs = 20'000'000;  // a decision that found no room is looked at again after this
constexpr int64_t kFailedPauseNs =
    25'000'000;                        // doubled with each failure: what could not be read may be soon
constexpr double kHorizonNs = 0.5e9;   // work that a distant endpoint may hold ahead
constexpr double kForgetBusyNs = 2e9;  // speeds are those of about the last seconds
constexpr int64_t kUnknownNs = 1'000'000'000;    // how long answers take while none has come
constexpr int64_t kLongestNs = 600'000'000'000;  // deadline of a child while nothing is known
constexpr int64_t kShortestNs = 10'000'000'000;  // and the least that it is given by measurement
constexpr double kRequestNs = 1e6;  // a request is about so much work of one hand, where rows are quick…
constexpr uint64_t kRequestBytes = 2 << 20;            // …and no more than this, so that it stays in cache
constexpr uint32_t kMostAsked = kMaxOpenRequests / 2;  // a worker forgets a request after its answer has left
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}  // namespace

// ---- events

void Assigner::joined(EndpointId id, bool in_place, uint32_t parallel, int64_t now) {
  Endpoint endpoint;
  endpoint.in_place = in_place;
  endpoint.parallel = std::max(1U, parallel);
  endpoint.last_answer_ns = now;
  endpoints_.emplace(id, endpoint);
}

void Assigner::draining(EndpointId id) {
  if (auto found = endpoints_.find(id); found != endpoints_.end()) found->second.draining = true;
}

std::vector<RangeId> Assigner::lost(EndpointId id, int64_t now) {
  std::vector<RangeId> hopeless;
  if (endpoints_.count(id) == 0) return hopeless;
  ++counts_.lost;
  std::vector<RangeId> touched;
  for (auto& [range_id, range] : ranges_)
    for (const Asker& asker : range.askers)
      if (asker.endpoint == id) touched.push_back(range_id);
  for (RangeId range_id : touched) {
    Range& range = ranges_.at(range_id);
    settle(range, id, now, false);
    if (range.done) {
      forget_if_over(range_id);
    } else if (range.askers.empty()) {
      ++counts_.retried;
      waiting_.insert(range_id);
      if (++range.attempts >= options_.max_attempts) hopeless.push_back(range_id);
    }
  }
  endpoints_.erase(id);
  for (auto& [range_id, range] : ranges_) range.failed_at.erase(id);
  if (endpoints_.empty()) lonely_since_ = now;
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
    for (Asker& asker : range.askers)
      if (!std::exchange(asker.cancelling, true)) cancels_.push_back({at->first, asker.endpoint});
    at = range.askers.empty() ? ranges_.erase(at) : std::next(at);
  }
}

void Assigner::settle(Range& range, EndpointId endpoint_id, int64_t now, bool measured) {
  auto asker = std::find_if(range.askers.begin(), range.askers.end(),
                            [&](const Asker& one) { return one.endpoint == endpoint_id; });
  if (asker == range.askers.end()) return;
  if (range.askers.size() > 1) --hedges_out_;
  Endpoint& endpoint = endpoints_.at(endpoint_id);
  endpoint.outstanding_rows -= range.rows;
  endpoint.asked_at.erase(endpoint.asked_at.find(asker->asked_ns));
  if (measured) {
    int64_t took = now - asker->asked_ns;
    recent_ns_.push_back(took);
    if (recent_ns_.size() > kRecent) recent_ns_.pop_front();
    endpoint.answered_rows += range.rows;
    endpoint.rows_seen += range.rows;
    endpoint.busy_ns +=
        static_cast<double>(std::max<int64_t>(1, now - std::max(asker->asked_ns, endpoint.last_answer_ns)));
    if (endpoint.busy_ns > kForgetBusyNs) endpoint.rows_seen /= 2, endpoint.busy_ns /= 2;
  }
  endpoint.last_answer_ns = now;
  range.askers.erase(asker);
}

void Assigner::forget_if_over(RangeId id) {
  auto found = ranges_.find(id);
  if (found != ranges_.end() && found->second.done && found->second.askers.empty()) ranges_.erase(found);
}

Assigner::Verdict Assigner::answered(RangeId id, EndpointId endpoint, int64_t now) {
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return Verdict::kUnasked;
  Range& range = found->second;
  bool asked = std::any_of(range.askers.begin(), range.askers.end(),
                           [&](const Asker& one) { return one.endpoint == endpoint; });
  if (!asked) return Verdict::kUnasked;
  settle(range, endpoint, now, true);
  if (range.done) {
    ++counts_.dropped;
    forget_if_over(id);
    return Verdict::kAgain;
  }
  range.done = true;
  if (auto batch = batches_.find(id.batch); batch != batches_.end()) --batch->second.ranges_left;
  for (Asker& other : range.askers)
    if (!std::exchange(other.cancelling, true)) cancels_.push_back({id, other.endpoint});
  forget_if_over(id);
  return Verdict::kFirst;
}

void Assigner::cancelled(RangeId id, EndpointId endpoint, int64_t now) {
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return;
  settle(found->second, endpoint, now, false);
  if (!found->second.done && found->second.askers.empty()) waiting_.insert(id);
  forget_if_over(id);
}

Assigner::Failure Assigner::failed(RangeId id, EndpointId endpoint, bool retry, int64_t now) {
  auto found = ranges_.find(id);
  if (found == ranges_.end()) return Failure::kIgnored;
  Range& range = found->second;
  settle(range, endpoint, now, false);
  if (range.done) {
    forget_if_over(id);
    return Failure::kIgnored;
  }
  range.failed_at.insert(endpoint);
  if (!retry || ++range.attempts >= options_.max_attempts) return Failure::kFinal;
  ++counts_.retried;
  range.again_at_ns = now + (kFailedPauseNs << std::min(range.attempts, 6));
  if (range.askers.empty()) waiting_.insert(id);
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
  auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return {};
  const Endpoint& one = found->second;
  return EndpointView{one.rows_per_ns() * 1e9, one.outstanding_rows, one.answered_rows};
}

int64_t Assigner::quantile_ns(double q) const {
  if (recent_ns_.empty()) return kUnknownNs;
  std::vector<int64_t> sorted(recent_ns_.begin(), recent_ns_.end());
  auto at = sorted.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), at, sorted.end());
  return *at;
}

int64_t Assigner::hedge_age_ns() const {
  return std::max(options_.hedge_floor_ns,
                  static_cast<int64_t>(options_.hedge_factor * static_cast<double>(quantile_ns(0.95))));
}

int64_t Assigner::head_hedge_age_ns() const {
  return std::max(options_.hedge_floor_ns, quantile_ns(0.95) * 5 / 4);
}

int64_t Assigner::deadline_for(const Range& range) const {
  int64_t base = options_.deadline_ns;
  if (base == 0)
    base = recent_ns_.size() < 8 ? kLongestNs : std::clamp(20 * quantile_ns(0.95), kShortestNs, kLongestNs);
  return base << std::min(range.attempts, 6);  // who was killed for being slow may simply have needed longer
}

int64_t Assigner::working_since(const Endpoint& endpoint) {
  if (endpoint.asked_at.empty()) return kNever;
  return std::max(*endpoint.asked_at.begin(), endpoint.last_answer_ns);
}

// ---- decisions

bool Assigner::has_room(const Endpoint& endpoint) const {
  if (endpoint.draining || endpoint.expelled || endpoint.asked_at.size() >= kMostAsked) return false;
  // One being worked on per hand, and one waiting, so that no hand idles while an answer travels.
  if (endpoint.in_place || options_.request_rows == 0)
    return endpoint.asked_at.size() < endpoint.parallel + 1;
  double ahead =
      std::max({2.0 * options_.request_rows, 2.0 * endpoint.parallel, endpoint.rows_per_ns() * kHorizonNs});
  return static_cast<double>(endpoint.outstanding_rows) < ahead;
}

bool Assigner::is_suspect(const Endpoint& endpoint, int64_t now) const {
  int64_t since = working_since(endpoint);
  return since != kNever && now - since > 2 * hedge_age_ns();
}

EndpointId Assigner::choose(const Range& range, bool for_hedge, int64_t now) const {
  double known = 0;
  for (const auto& [id, endpoint] : endpoints_)
    known = std::max(known, endpoint.rows_per_ns() / endpoint.parallel);
  if (known == 0) known = 1e-9;
  EndpointId best = 0;
  double best_ns = 0;
  for (int pass = 0; pass < 2 && best == 0;
       ++pass) {  // who failed it before, or hangs, only if there is nobody else
    for (const auto& [id, endpoint] : endpoints_) {
      if (!has_room(endpoint)) continue;
      if (for_hedge && (endpoint.in_place || range.askers.front().endpoint == id)) continue;
      bool failed = range.failed_at.count(id) > 0;
      if (failed && now < range.again_at_ns) continue;
      bool doubtful = failed || (!endpoint.in_place && is_suspect(endpoint, now));
      if (doubtful && (pass == 0 || for_hedge)) continue;
      double speed = endpoint.rows_per_ns() > 0 ? endpoint.rows_per_ns() : known * endpoint.parallel;
      double ns = static_cast<double>(endpoint.outstanding_rows + range.rows) / speed;
      if (best == 0 || ns < best_ns) best = id, best_ns = ns;
    }
  }
  return best;
}

void Assigner::ask(RangeId id, Range& range, EndpointId endpoint_id, Decisions& out, int64_t now) {
  Endpoint& endpoint = endpoints_.at(endpoint_id);
  endpoint.outstanding_rows += range.rows;
  endpoint.asked_at.insert(now);
  if (!range.askers.empty()) ++hedges_out_, ++counts_.hedged;
  ++counts_.asked;
  range.askers.push_back({endpoint_id, now});
  out.ask.push_back({id, endpoint_id});
}

// Asking and answering cost tens of microseconds at both ends: rows that take one each are asked for by the
// hundred.
uint32_t Assigner::range_rows(const Batch& batch) const {
  if (options_.request_rows == 0) return batch.rows;
  double quickest = 0;
  for (const auto& [id, endpoint] : endpoints_)
    quickest = std::max(quickest, endpoint.rows_per_ns() / endpoint.parallel);
  uint64_t in_time = static_cast<uint64_t>(std::min(quickest * kRequestNs, 1e6));
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

void Assigner::ask_waiting(Decisions& out, int64_t now) {
  auto any_room = [&] {
    return std::any_of(endpoints_.begin(), endpoints_.end(),
                       [&](const auto& one) { return has_room(one.second); });
  };
  for (auto at = waiting_.begin(); at != waiting_.end() && any_room();) {
    RangeId id = *at;
    Range& range = ranges_.at(id);
    EndpointId endpoint = choose(range, false, now);
    if (endpoint == 0) {  // it has failed at those with room, a moment ago
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    ask(id, range, endpoint, out, now);
  }
}

void Assigner::hedge(Decisions& out, int64_t now) {
  if (endpoints_.size() < 2 || batches_.empty()) return;
  // When everything is slow, asking twice makes it slower: few at a time, the lowest first.
  size_t limit = std::max<size_t>(2, ranges_.size() / 8);
  int64_t late = hedge_age_ns(), head_late = head_hedge_age_ns();
  BatchId head = batches_.begin()->first;
  for (auto& [id, range] : ranges_) {
    if (hedges_out_ >= limit) return;
    if (range.done || range.askers.size() != 1) continue;
    if (endpoints_.at(range.askers[0].endpoint).in_place) continue;
    int64_t age = now - range.askers[0].asked_ns;
    EndpointId endpoint = 0;
    if (age > late) {
      endpoint = choose(range, true, now);
    } else if (id.batch == head && age > head_late && waiting_.empty()) {
      endpoint = choose(range, true, now);
      if (endpoint != 0 && !endpoints_.at(endpoint).asked_at.empty()) endpoint = 0;
    }
    if (endpoint != 0) ask(id, range, endpoint, out, now);
  }
}

void Assigner::check_deadlines(Decisions& out, int64_t now) {
  std::map<EndpointId, const Range*>
      oldest;  // what each child has at hand: the lowest that it was asked first
  for (const auto& [id, range] : ranges_)
    for (const Asker& asker : range.askers) {
      const Endpoint& endpoint = endpoints_.at(asker.endpoint);
      if (!endpoint.in_place || endpoint.expelled) continue;
      const Range*& held = oldest[asker.endpoint];
      if (!held || asker.asked_ns < held->askers[0].asked_ns) held = &range;
    }
  for (auto& [id, range] : oldest) {
    if (now - working_since(endpoints_.at(id)) <= deadline_for(*range)) continue;
    endpoints_.at(id).expelled = true;
    ++counts_.expelled;
    out.expel.push_back(id);
  }
}

Decisions Assigner::decide(int64_t now) {
  Decisions out;
  admit(out);
  ask_waiting(out, now);
  hedge(out, now);
  check_deadlines(out, now);
  out.cancel.swap(cancels_);
  // Only for askers that are still there and have not answered since.
  std::erase_if(out.cancel, [&](const Ask& cancel) {
    auto found = ranges_.find(cancel.range);
    return found == ranges_.end() ||
           std::none_of(found->second.askers.begin(), found->second.askers.end(),
                        [&](const Asker& one) { return one.endpoint == cancel.endpoint; });
  });
  if (endpoints_.empty() && !waiting_.empty() && now - lonely_since_ > options_.lonely_ns)
    out.give_up =
        "no feed worker could be reached for " + std::to_string(options_.lonely_ns / 1'000'000) + " ms";
  return out;
}

std::optional<int64_t> Assigner::wake_at(int64_t now) const {
  int64_t wake = kNever;
  if (endpoints_.empty()) {
    if (!waiting_.empty()) wake = lonely_since_ + options_.lonely_ns + 1;
  } else {
    for (RangeId id : waiting_)
      if (int64_t again = ranges_.at(id).again_at_ns; again > now) wake = std::min(wake, again);
    int64_t head_late = head_hedge_age_ns();
    bool can_hedge = endpoints_.size() > 1;
    for (const auto& [id, range] : ranges_) {
      for (const Asker& asker : range.askers) {
        const Endpoint& endpoint = endpoints_.at(asker.endpoint);
        if (endpoint.in_place)
          wake = std::min(wake, std::max(asker.asked_ns, endpoint.last_answer_ns) + deadline_for(range) + 1);
        else if (can_hedge && !range.done && range.askers.size() == 1)
          wake = std::min(wake, asker.asked_ns + head_late + 1);
      }
    }
  }
  if (wake == kNever) return {};
  return std::max(wake, now + kRetryNs);
}

}  // namespace stoker::feed
