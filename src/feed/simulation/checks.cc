// SPDX-License-Identifier: Apache-2.0
// What must hold of every decision.
#include <algorithm>
#include <utility>

#include "feed/protocol.h"
#include "feed/simulation/rank.h"

namespace stoker::feed::simulation {
namespace {
constexpr int64_t kStuckNs = 90 * kSecond;
}

std::string Rank::name(RangeId range) const {
  return "rank " + std::to_string(index_) + ", batch " + std::to_string(range.batch) + ", rows from " +
         std::to_string(range.first);
}

void Rank::drop_asker(RangeId id, EndpointId endpoint) {
  Range& range = model_.at(id);
  std::erase(range.askers, endpoint);
  range.withdrawn.erase(endpoint);
  if (auto found = endpoints_.find(endpoint); found != endpoints_.end()) found->second.rows -= range.rows;
}

void Rank::forget_if_over(RangeId id) {
  auto found = model_.find(id);
  if (found != model_.end() && found->second.done && found->second.askers.empty()) model_.erase(found);
}

void Rank::cancel_others(RangeId id) {
  Range& range = model_.at(id);
  if (std::exchange(range.cancelled, true)) return;
  for (EndpointId asker : range.askers)
    if (range.withdrawn.count(asker) == 0) cancels_.emplace(id, asker);
}

size_t Rank::helpers() const {
  return static_cast<size_t>(
      std::count_if(endpoints_.begin(), endpoints_.end(), [](const auto& one) { return !one.second.spare; }));
}

size_t Rank::helpers_of(const Range& range) const {
  return static_cast<size_t>(std::count_if(range.askers.begin(), range.askers.end(),
                                           [&](EndpointId one) { return !endpoints_.at(one).spare; }));
}

// Where a helper has come to a range, or the trainer needs its cores, the spare worker leaves it.
void Rank::withdraw(RangeId id, Range& range) {
  for (EndpointId asker : range.askers)
    if (endpoints_.at(asker).spare && range.withdrawn.insert(asker).second) cancels_.emplace(id, asker);
}

// Whoever still has a range that is done is told once, and nobody else is.
void Rank::check_cancels(const Decisions& decisions) {
  for (const Ask& one : decisions.cancel)
    if (cancels_.erase({one.range, one.endpoint}) == 0)
      world_.wrong(name(one.range) + " is cancelled though it is wanted");
  for (auto [id, asker] : std::exchange(cancels_, {}))
    if (auto range = model_.find(id);
        range != model_.end() && std::count(range->second.askers.begin(), range->second.askers.end(), asker))
      world_.wrong(name(id) + " is done and not cancelled where it was asked too");
}

void Rank::check(const Decisions& decisions) {
  for (BatchId id : decisions.admit) check_admitted(id);
  if (next_out_ < batches_.size() && next_admit_ <= next_out_)
    world_.wrong("the lowest batch is not admitted");
  if (next_admit_ < batches_.size()) {
    if (window_used_ + batches_[next_admit_].bytes <= options_.window_bytes)
      world_.wrong("a batch that fits is not admitted");
    world_.hit(FaultKind::kWindow);
  }
  for (const Ask& ask : decisions.ask) check_ask(ask);
  check_cancels(decisions);
  for (EndpointId id : decisions.expel) {
    auto found = endpoints_.find(id);
    if (found == endpoints_.end() || !found->second.in_place || found->second.expelled ||
        found->second.asked.empty())
      world_.wrong("expels an endpoint that owes nothing, or twice");
    else if (!world_.hangs(found->second.connection) && !was_stopped_briefly())
      world_.wrong("expels a child that works");
    ++counts_.expelled;
  }
  if (!decisions.give_up.empty() && (helpers() > 0 || world_.now() - lonely_since_ <= options_.lonely_ns))
    world_.wrong("gives up too early");
}

// Not for so long that it is sure to be told from a slow machine.
bool Rank::was_stopped_briefly() const {
  return stopped_until_ns > 0 && world_.now() - stopped_until_ns < kSecond &&
         stopped_ns < 4 * options_.deadline_ns + kSecond + kSecond / 10;
}

void Rank::check_admitted(BatchId id) {
  if (id != next_admit_) return world_.wrong("batches are admitted out of order");
  Batch& batch = batches_[id];
  if (window_used_ + batch.bytes > options_.window_bytes && id != next_out_)
    world_.wrong("the window is exceeded");
  window_used_ += batch.bytes;
  batch.admitted = true;
  uint32_t first = 0;
  while (first < batch.rows) {
    uint32_t rows = assigner_.rows_of({id, first});
    if (rows == 0) return world_.wrong("an admitted batch is not cut into ranges without gaps");
    Range range;
    range.rows = rows;
    model_.emplace(RangeId{id, first}, std::move(range));
    first += rows;
  }
  ++next_admit_;
}

void Rank::check_ask(const Ask& ask) {
  ++world_.tally().asked;
  auto range = model_.find(ask.range);
  auto endpoint = endpoints_.find(ask.endpoint);
  if (range == model_.end() || range->second.done)
    return world_.wrong(name(ask.range) + " is asked though nobody waits for it");
  if (endpoint == endpoints_.end()) return world_.wrong(name(ask.range) + " is asked of nobody");
  Endpoint& to = endpoint->second;
  if (to.draining || to.expelled) world_.wrong(name(ask.range) + " is asked of one that is leaving");
  auto& askers = range->second.askers;
  for (EndpointId other : askers)
    if (to.in_place || endpoints_.at(other).in_place || other == ask.endpoint)
      world_.wrong(name(ask.range) + " is in place with one and asked of another");
  const size_t before = helpers_of(range->second);
  if (to.spare) {
    if (!askers.empty()) world_.wrong(name(ask.range) + " is lent though another has it");
    if (!spare_takes_part_) world_.wrong(name(ask.range) + " is lent to one that has stepped back");
    if (to.asked.size() > 1) world_.wrong(name(ask.range) + " is lent to one that has enough");
    ++counts_.lent;
    ++world_.tally().lent;
  } else {
    if (before > 1) world_.wrong(name(ask.range) + " is asked a third time at once");
    ++counts_.asked;
    if (before > 0) ++counts_.hedged, ++world_.tally().hedged;
    withdraw(ask.range, range->second);
  }
  askers.push_back(ask.endpoint);
  to.rows += range->second.rows;
  if (to.asked.size() >= kMaxOpenRequests) world_.wrong("a connection holds too many requests");
}

void Rank::check_counts() {
  const Assigner::Counts& theirs = assigner_.counts();
  if (theirs.asked != counts_.asked || theirs.hedged != counts_.hedged || theirs.retried != counts_.retried ||
      theirs.dropped != counts_.dropped || theirs.lost != counts_.lost ||
      theirs.expelled != counts_.expelled || theirs.lent != counts_.lent)
    world_.wrong("the counters are not what happened");
  if (assigner_.endpoints() != helpers()) world_.wrong("endpoints() is not who is there");
  for (const auto& [id, endpoint] : endpoints_) {
    auto view = assigner_.endpoint(id);
    if (!view || view->outstanding_rows != endpoint.rows)
      world_.wrong("an endpoint's outstanding rows are wrong");
  }
  int64_t elapsed = world_.now() - started_ns_;
  if (static_cast<int64_t>(timed_) > 10 + elapsed / (20 * kMs))
    world_.wrong("wakes more often than every 20 ms");
}

void Rank::watch() {
  bool wants = next_out_ < batches_.size() && !batches_[next_out_].ready;
  bool able = std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& entry) {
    return !entry.second.spare && !entry.second.draining && !entry.second.expelled &&
           world_.works_for(entry.second.connection);
  });
  if (!wants || !able) {
    able_since_ = -1;
  } else if (able_since_ < 0) {
    able_since_ = world_.now();
  } else if (world_.now() - std::max(able_since_, progress_ns_) > kStuckNs) {
    world_.wrong("rank " + std::to_string(index_) + " gets nowhere though a worker is there");
  }
}

}  // namespace stoker::feed::simulation
