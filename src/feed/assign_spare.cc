// SPDX-License-Identifier: Apache-2.0
// Assigner's part about spare endpoints: what they are lent, and when it is withdrawn.
#include <algorithm>
#include <utility>

#include "feed/assign.h"

namespace stoker::feed {
namespace {
constexpr double kMargin =
    1.5;  // of the time that the others need to come there, over what a spare one needs
}

size_t Assigner::Range::helpers() const {
  return static_cast<size_t>(
      std::count_if(askers.begin(), askers.end(), [](const Asker& one) { return !one.spare; }));
}

const Assigner::Asker* Assigner::Range::helper() const {
  auto found = std::find_if(askers.begin(), askers.end(), [](const Asker& one) { return !one.spare; });
  return found == askers.end() ? nullptr : &*found;
}

void Assigner::withdraw(RangeId id, Range& range) {
  for (Asker& asker : range.askers) {
    if (!asker.spare || std::exchange(asker.cancelling, true)) continue;
    ++counts_.withdrawn;
    cancels_.push_back({id, asker.endpoint});
  }
}

void Assigner::let_spare(bool take_part) {
  spare_takes_part_ = take_part;
  if (take_part) return;
  for (EndpointId spare : pool_.spares())
    for (const auto& [asked_ns, id] : pool_.at(spare).asked) withdraw(id, ranges_.at(id));
}

// What waits is beyond what the others hold: they come to its first rows at once, to later ones when they
// have made those before. While it is not known how fast either is, one range of the farthest shows it.
std::optional<RangeId> Assigner::to_lend(EndpointId id) const {
  const EndpointPool::Endpoint& spare = pool_.at(id);
  auto may = [&](RangeId one) {
    const Range& range = ranges_.at(one);
    return one.batch < ask_below_ && range.askers.empty() && range.failed_at.count(id) == 0;
  };
  const double others = pool_.speed(), own = spare.rows_per_ns();
  if (pool_.size() > 0 && (others <= 0 || own <= 0)) {
    if (!spare.asked.empty()) return {};
    auto farthest = std::find_if(waiting_.rbegin(), waiting_.rend(), may);
    return farthest == waiting_.rend() ? std::nullopt : std::optional(*farthest);
  }
  double before = 0;  // rows
  for (RangeId one : waiting_) {
    const uint32_t rows = ranges_.at(one).rows;
    const double needs = static_cast<double>(spare.outstanding_rows + rows);
    if (one.batch >= ask_below_) return {};
    if (!may(one)) continue;
    if (pool_.size() == 0 || before * own >= kMargin * needs * others) return one;
    before += rows;
  }
  return {};
}

void Assigner::lend(Decisions& out, int64_t now) {
  if (!spare_takes_part_ || nobody_waits()) return;
  for (EndpointId spare : pool_.spares())
    while (pool_.spare_has_room(spare)) {
      const auto id = to_lend(spare);
      if (!id) break;
      ask(*id, ranges_.at(*id), spare, out, now);
    }
}

}  // namespace stoker::feed
