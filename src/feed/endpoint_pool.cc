// SPDX-License-Identifier: Apache-2.0
#include "feed/endpoint_pool.h"

#include <algorithm>
#include <limits>

#include "feed/protocol.h"

namespace stoker::feed {
namespace {
constexpr double kHorizonNs = 0.25e9;                // work that a distant endpoint may hold ahead
constexpr double kForgetBusyNs = 2e9;                // speeds are those of about the last seconds
constexpr size_t kMostAsked = kMaxOpenRequests / 2;  // a worker forgets a request after its answer has left
constexpr int kLookedAt = 16;  // the orders are by the usual number of rows; a range may have another
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
}  // namespace

int64_t EndpointPool::Endpoint::working_since_ns() const {
  return asked.empty() ? kNever : std::max(asked.begin()->first, last_answer_ns);
}

// ---- the orders

bool EndpointPool::room_at(const Endpoint& endpoint) const {
  if (endpoint.draining || endpoint.expelled || endpoint.asked.size() >= kMostAsked) return false;
  // One being worked on per hand, and one waiting, so that no hand idles while an answer travels.
  if (endpoint.in_place || request_rows_ == 0) return endpoint.asked.size() < endpoint.parallel + 1;
  double ahead =
      std::max({2.0 * request_rows_, 2.0 * endpoint.parallel, endpoint.rows_per_ns() * kHorizonNs});
  return static_cast<double>(endpoint.outstanding_rows) < ahead;
}

void EndpointPool::put(EndpointId id, Endpoint& endpoint) {
  if (endpoint.spare) return;
  double speed = endpoint.rows_per_ns(), hand_speed = speed / endpoint.parallel;
  if (hand_speed != endpoint.hand_speed) {
    hand_speeds_.erase({endpoint.hand_speed, id});
    hand_speeds_.emplace(endpoint.hand_speed = hand_speed, id);
  }
  if (!room_at(endpoint)) return;
  endpoint.place = (endpoint.doubtful   ? kDoubtful
                    : endpoint.in_place ? kChild
                                        : kDistant) +
                   (speed > 0 ? 0 : 1);
  endpoint.key =
      static_cast<double>(endpoint.outstanding_rows + usual_rows_) / (speed > 0 ? speed : endpoint.parallel);
  orders_[static_cast<size_t>(endpoint.place)].emplace(endpoint.key, id);
  endpoint.idle = !endpoint.in_place && endpoint.asked.empty();
  idle_ += endpoint.idle;
}

void EndpointPool::take_out(EndpointId id, Endpoint& endpoint) {
  if (endpoint.place < 0) return;
  orders_[static_cast<size_t>(endpoint.place)].erase({endpoint.key, id});
  idle_ -= std::exchange(endpoint.idle, false);
  endpoint.place = -1;
}

void EndpointPool::expect_rows(uint32_t rows) {
  if (rows <= 2 * usual_rows_ && usual_rows_ <= 2 * rows) return;
  usual_rows_ = rows;
  for (auto& [id, endpoint] : endpoints_) take_out(id, endpoint), put(id, endpoint);
}

// ---- events

void EndpointPool::joined(EndpointId id, bool in_place, uint32_t parallel, int64_t now) {
  Endpoint endpoint;
  endpoint.in_place = in_place;
  endpoint.parallel = std::max(1U, parallel);
  endpoint.last_answer_ns = now;
  auto [at, is_new] = endpoints_.emplace(id, std::move(endpoint));
  if (!is_new) return;
  if (in_place) children_.push_back(id);
  put(id, at->second);
}

void EndpointPool::spare_joined(EndpointId id, uint32_t parallel, int64_t now) {
  Endpoint endpoint;
  endpoint.spare = true;
  endpoint.parallel = std::max(1U, parallel);
  endpoint.last_answer_ns = now;
  if (endpoints_.emplace(id, std::move(endpoint)).second) spares_.push_back(id);
}

void EndpointPool::change(EndpointId id, void (*how)(Endpoint&)) {
  auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return;
  take_out(id, found->second);
  how(found->second);
  put(id, found->second);
}

void EndpointPool::draining(EndpointId id) {
  change(id, [](Endpoint& endpoint) { endpoint.draining = true; });
}

void EndpointPool::expelled(EndpointId id) {
  change(id, [](Endpoint& endpoint) { endpoint.expelled = true; });
}

std::vector<RangeId> EndpointPool::remove(EndpointId id) {
  std::vector<RangeId> owed;
  auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return owed;
  for (const auto& [asked_ns, range] : found->second.asked) owed.push_back(range);
  std::sort(owed.begin(), owed.end());
  take_out(id, found->second);
  hand_speeds_.erase({found->second.hand_speed, id});
  if (found->second.in_place) std::erase(children_, id);
  if (found->second.spare) std::erase(spares_, id);
  endpoints_.erase(found);
  return owed;
}

void EndpointPool::ask(EndpointId id, RangeId range, uint32_t rows, int64_t now) {
  Endpoint& endpoint = endpoints_.at(id);
  take_out(id, endpoint);
  endpoint.outstanding_rows += rows;
  endpoint.asked.emplace(now, range);
  put(id, endpoint);
}

void EndpointPool::settle(EndpointId id, RangeId range, uint32_t rows, int64_t asked_ns, int64_t now,
                          bool measured) {
  Endpoint& endpoint = endpoints_.at(id);
  take_out(id, endpoint);
  endpoint.outstanding_rows -= rows;
  endpoint.asked.erase({asked_ns, range});
  if (measured) {
    endpoint.answered_rows += rows;
    endpoint.rows_seen += rows;
    endpoint.busy_ns +=
        static_cast<double>(std::max<int64_t>(1, now - std::max(asked_ns, endpoint.last_answer_ns)));
    if (endpoint.busy_ns > kForgetBusyNs) endpoint.rows_seen /= 2, endpoint.busy_ns /= 2;
  }
  endpoint.last_answer_ns = now;
  endpoint.doubtful = false;
  put(id, endpoint);
}

// ---- questions

bool EndpointPool::has_room() const {
  return std::any_of(orders_.begin(), orders_.end(), [](const Order& order) { return !order.empty(); });
}

// One being worked on per hand, and one waiting.
bool EndpointPool::spare_has_room(EndpointId id) const {
  const Endpoint& endpoint = endpoints_.at(id);
  return endpoint.asked.size() < endpoint.parallel + 1;
}

double EndpointPool::speed() const {
  double sum = 0;
  for (const auto& [id, endpoint] : endpoints_)
    if (!endpoint.spare && !endpoint.draining) sum += endpoint.rows_per_ns();
  return sum;
}

double EndpointPool::quickest_hand() const { return hand_speeds_.empty() ? 0 : hand_speeds_.rbegin()->first; }

const EndpointPool::Endpoint* EndpointPool::find(EndpointId id) const {
  auto found = endpoints_.find(id);
  return found == endpoints_.end() ? nullptr : &found->second;
}

EndpointId EndpointPool::best(const Wanted& wanted, int64_t silent_ns, int64_t now) {
  std::pair<double, EndpointId> best{0, 0};
  for (int place : {kDistant + 0, kDistant + 1}) look(place, wanted, silent_ns, now, best);
  if (wanted.hedges != 0) return best.second;
  for (int place : {kChild + 0, kChild + 1}) look(place, wanted, silent_ns, now, best);
  if (best.second != 0) return best.second;
  for (int place : {kDoubtful + 0, kDoubtful + 1}) look(place, wanted, silent_ns, now, best);
  if (!wanted.is_again || !wanted.failed_at) return best.second;
  double known = quickest_hand() > 0 ? quickest_hand() : 1e-9;
  for (EndpointId id : *wanted.failed_at) {
    auto found = endpoints_.find(id);
    if (found == endpoints_.end() || found->second.place < 0) continue;
    const Endpoint& endpoint = found->second;
    double speed = endpoint.rows_per_ns() > 0 ? endpoint.rows_per_ns() : known * endpoint.parallel;
    std::pair mine{static_cast<double>(endpoint.outstanding_rows + wanted.rows) / speed, id};
    if (best.second == 0 || mine < best) best = mine;
  }
  return best.second;
}

void EndpointPool::look(int place, const Wanted& wanted, int64_t silent_ns, int64_t now,
                        std::pair<double, EndpointId>& best) {
  double known = quickest_hand() > 0 ? quickest_hand() : 1e-9;
  Order& order = orders_[static_cast<size_t>(place)];
  int seen = 0;
  for (auto at = order.begin(); at != order.end() && seen < kLookedAt;) {
    EndpointId id = at->second;
    ++at;
    Endpoint& endpoint = endpoints_.at(id);
    if (place < kChild && endpoint.working_since_ns() < now - silent_ns) {
      take_out(id, endpoint);
      endpoint.doubtful = true;
      put(id, endpoint);
      continue;
    }
    if (id == wanted.hedges || (wanted.failed_at && wanted.failed_at->count(id) > 0)) continue;
    ++seen;
    if (wanted.idle_only && !endpoint.idle) continue;
    double speed = endpoint.rows_per_ns() > 0 ? endpoint.rows_per_ns() : known * endpoint.parallel;
    std::pair mine{static_cast<double>(endpoint.outstanding_rows + wanted.rows) / speed, id};
    if (best.second == 0 || mine < best) best = mine;
  }
}

}  // namespace stoker::feed
