// SPDX-License-Identifier: Apache-2.0
// EndpointPool: those who can be asked for ranges: what each owes, how fast it is, and which one would finish
// a range first. Kept in order, so that a choice costs the same for one endpoint and for a thousand. Spare
// workers are in none of the orders: all questions but those about spares are as if they were not there.
// Pure: part of Assigner's decisions.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace stoker::feed {

using BatchId = uint64_t;     // counts pushes: 0, 1, 2…
using EndpointId = uint64_t;  // never used twice; 0: none
struct RangeId {
  BatchId batch = 0;
  uint32_t first = 0;  // row
  auto operator<=>(const RangeId&) const = default;
};

class EndpointPool {
 public:
  struct Endpoint {
    bool in_place = false;
    bool spare = false;
    bool draining = false;
    bool expelled = false;
    uint32_t parallel = 1;
    uint64_t outstanding_rows = 0;
    std::set<std::pair<int64_t, RangeId>> asked;  // when, what; neither answered nor given back
    uint64_t answered_rows = 0;
    int64_t last_answer_ns = 0;
    double rows_seen = 0, busy_ns = 0;
    double rows_per_ns() const { return busy_ns > 0 ? rows_seen / busy_ns : 0; }
    int64_t working_since_ns() const;  // at the oldest thing asked of it; INT64_MAX: nothing

   private:
    friend class EndpointPool;
    // Where it stands in the pool's orders.
    int place = -1;
    double key = 0, hand_speed = 0;
    bool doubtful = false;  // has been silent for long; until it answers
    bool idle = false;
  };
  struct Wanted {
    uint32_t rows = 0;
    const std::set<EndpointId>* failed_at = nullptr;  // these only if nobody else, and…
    bool is_again = false;                            // …only with this
    EndpointId hedges = 0;   // who has it already: now a distant one that is not doubtful
    bool idle_only = false;  // of hedges
  };

  explicit EndpointPool(uint32_t request_rows) : request_rows_(request_rows), usual_rows_(request_rows) {}

  void joined(EndpointId id, bool in_place, uint32_t parallel, int64_t now);
  void spare_joined(EndpointId id, uint32_t parallel, int64_t now);
  void draining(EndpointId id);
  void expelled(EndpointId id);
  std::vector<RangeId> remove(EndpointId id);  // what it owed, lowest first
  void ask(EndpointId id, RangeId range, uint32_t rows, int64_t now);
  // It owes the range no longer; `measured`: because it has answered.
  void settle(EndpointId id, RangeId range, uint32_t rows, int64_t asked_ns, int64_t now, bool measured);
  void expect_rows(uint32_t rows);  // about so many in a range from now on

  // Who would finish the range first; 0 when nobody has room. Exact among the first few that look best.
  // Silent for longer than `silent_ns` with something to do: only if there is nobody else.
  EndpointId best(const Wanted& wanted, int64_t silent_ns, int64_t now);
  bool has_room() const;
  bool has_idle() const { return idle_ > 0; }  // a distant one that has nothing to do
  double quickest_hand() const;                // rows per ns; 0: nothing is known
  const Endpoint* find(EndpointId id) const;
  const Endpoint& at(EndpointId id) const { return endpoints_.at(id); }
  const std::vector<EndpointId>& children() const { return children_; }  // in place, in order of joining
  const std::vector<EndpointId>& spares() const { return spares_; }
  bool spare_has_room(EndpointId id) const;
  double speed() const;  // rows per ns of all together, as far as it is known
  size_t size() const { return endpoints_.size() - spares_.size(); }

 private:
  enum Place { kDistant = 0, kChild = 2, kDoubtful = 4, kPlaces = 6 };  // and one more each: speed unknown
  using Order = std::set<std::pair<double, EndpointId>>;
  bool room_at(const Endpoint& endpoint) const;
  void put(EndpointId id, Endpoint& endpoint);
  void take_out(EndpointId id, Endpoint& endpoint);
  void change(EndpointId id, void (*how)(Endpoint&));
  void look(int place, const Wanted& wanted, int64_t silent_ns, int64_t now,
            std::pair<double, EndpointId>& best);

  const uint32_t request_rows_;
  uint32_t usual_rows_;
  std::unordered_map<EndpointId, Endpoint> endpoints_;
  std::vector<EndpointId> children_, spares_;
  std::array<Order, kPlaces> orders_;  // of those with room, soonest first
  Order hand_speeds_;
  size_t idle_ = 0;
};

}  // namespace stoker::feed
