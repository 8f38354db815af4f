// SPDX-License-Identifier: Apache-2.0
// The client's own children: starting, answers through shared memory, deaths.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "feed/client_core.h"

namespace stoker::feed {
namespace {
constexpr int kMaxDeaths = 4;  // in a row, without an answer between
// Of one that dies again and again while others answer, which is not what ends the stream.
constexpr int64_t kFirstPauseNs = 500'000'000;
constexpr int kMostDoublings = 6;
constexpr uint64_t kCheckOneIn = 64;
constexpr int64_t kAsleepNs = 5'000'000'000;
constexpr size_t kMaxEndedTimes = 64;  // figures of more dead children are not kept

Fault overwritten(const char* what, const ChildLink& child) {
  return fault_of(
      {Code::kData,
       std::string(what) + " in shared memory is not what child " + std::to_string(child.pid()) + " wrote",
       {}});
}
}  // namespace

Status ClientCore::start_kid(Kid& kid) {
  STOKER_ASSIGN(kid.link, ChildLink::start(*loop_, kid.command, plan_, pool_, *this, options_.plan_ns));
  return ok();
}

ClientCore::Kid* ClientCore::kid_of(ChildLink& link) {
  for (Kid& kid : kids_)
    if (kid.link.get() == &link) return &kid;
  return nullptr;
}

bool ClientCore::worth_checking() { return options_.audit || seen_from_children_++ % kCheckOneIn == 0; }

void ClientCore::on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) {
  Kid& kid = *kid_of(child);
  if (auto taken = take_layout(reply); !taken.ok()) return fail_stream(fault_of(taken.error()));
  kid.endpoint = join(&kid, true, parallel);
  step();
}

void ClientCore::answered(Kid& kid) {
  kid.deaths = kid.idle_deaths = 0;
  ++child_answers_;
  goes_on(kid);
}

// It has answered, or was idle and has been asked.
void ClientCore::goes_on(Kid& kid) {
  kid.at_it_since_ns = monotonic_ns();
  kid.told_late = false;
}

void ClientCore::tell_of_late_kids(int64_t now) {
  const bool slept =
      now - std::exchange(looked_at_kids_ns_, now) > kAsleepNs;  // what they did is still unread
  for (Kid& kid : kids_) {
    if (slept) goes_on(kid);
    auto found = endpoints_.find(kid.endpoint);
    if (found == endpoints_.end() || found->second.asked.empty() || kid.told_late) continue;
    RangeId oldest = found->second.asked.begin()->second;
    int64_t took = now - kid.at_it_since_ns, patience = assigner_.patience_ns(oldest);
    if (!AnswerTimes::is_late(took, patience) || !open_.contains(oldest.batch)) continue;
    kid.told_late = true;
    log_line(LogLevel::kWarn, "feed",
             "worker process " + std::to_string(kid.link->pid()) + " has been at the batch of position " +
                 std::to_string(refs_of(oldest).front().position) + " for " +
                 std::to_string(took / 1'000'000'000) + " s; after " +
                 std::to_string(patience / 1'000'000'000) + " s it is replaced");
  }
}

void ClientCore::on_child_refused(ChildLink&, const Fault& fault) { fail_stream(fault); }

void ClientCore::on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                               const RowCounts& counts) {
  Kid& kid = *kid_of(child);
  auto range = take_asked(kid.endpoint, request);
  if (!range) return;
  answered(kid);
  auto verdict = assigner_.answered(*range, kid.endpoint, monotonic_ns());
  auto found = open_.find(range->batch);
  if (verdict == Assigner::Verdict::kFirst && found != open_.end() && found->second.slot) {
    Open& batch = found->second;
    size_t leaves = layout_->leaves.size(), rows = hashes.size() / leaves;
    auto offsets = layout_->leaf_offsets(batch.refs.size());
    for (size_t row = 0; row < rows; ++row) {
      if (!worth_checking() || row_is_whole(*batch.slot, offsets, range->first + row, &hashes[row * leaves]))
        continue;
      return fail_stream(overwritten("a row", child));
    }
    row_counts_ += counts;
    rows_counted(*range, hashes);
  }
  step();
}

void ClientCore::on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                               uint64_t hash) {
  Kid& kid = *kid_of(child);
  auto range = take_asked(kid.endpoint, request);
  if (!range) return;
  answered(kid);
  auto verdict = assigner_.answered(*range, kid.endpoint, monotonic_ns());
  if (verdict == Assigner::Verdict::kFirst && open_.contains(range->batch) && worth_checking() &&
      wire::block_hash(slot->bytes().first(bytes)) != hash)
    return fail_stream(overwritten("a batch", child));
  unit_made(*range, verdict, std::move(slot), bytes, hash);
  step();
}

void ClientCore::unit_made(RangeId range, Assigner::Verdict verdict, wire::SlotRef slot, uint64_t bytes,
                           uint64_t hash) {
  auto found = open_.find(range.batch);
  if (verdict == Assigner::Verdict::kFirst && found != open_.end()) {
    found->second.slot = std::move(slot);
    found->second.unit_bytes = bytes;
    unit_size_known(range.batch, bytes);
    rows_counted(range, {hash});
  } else if (verdict == Assigner::Verdict::kAgain) {
    same_as_before(range, {hash});
  }
}

bool ClientCore::row_is_whole(wire::Slot& slot, const std::vector<uint64_t>& offsets, size_t row,
                              const uint64_t* hashes) const {
  for (size_t k = 0; k < layout_->leaves.size(); ++k) {
    const uint64_t size = layout_->leaves[k].row_bytes;
    if (wire::block_hash({slot.bytes().data() + offsets[k] + row * size, size}) != hashes[k]) return false;
  }
  return true;
}

void ClientCore::on_child_error(ChildLink& child, uint32_t request, const Fault& fault) {
  Kid& kid = *kid_of(child);
  answered(kid);
  range_failed(kid.endpoint, request, fault);
  step();
}

void ClientCore::on_child_cancelled(ChildLink& child, uint32_t request) {
  Kid& kid = *kid_of(child);
  goes_on(kid);
  range_cancelled(kid.endpoint, request);
  step();
}

void ClientCore::on_child_times(ChildLink& child, std::string_view json) { kid_of(child)->times = json; }

void ClientCore::on_child_gone(ChildLink& child, const std::string& how) {
  Kid* kid = kid_of(child);
  if (!kid || over_) return;
  kid_died(*kid, how);
  step();
}

void ClientCore::start_rested_kids(int64_t now) {
  for (Kid& kid : kids_) {
    if (kid.again_ns == 0 || now < kid.again_ns) continue;
    kid.again_ns = 0;
    if (auto started = start_kid(kid); !started.ok()) return fail_stream(fault_of(started.error()));
  }
}

void ClientCore::kid_died(Kid& kid, const std::string& how) {
  std::string lines = kid.link->last_lines();
  std::string what = "worker process " + std::to_string(kid.link->pid()) + " " + how;
  bool too_slow = kid.link->too_slow_to_start();  // trying that again would take as long
  kid.cpu_ns += kid.link->cpu_ns();
  if (!kid.times.empty() && ended_times_.size() < kMaxEndedTimes)
    ended_times_.push_back(std::exchange(kid.times, {}));
  // Should it be the data that ends workers, it is likely the first that this one was asked for.
  Fault fault;
  bool idle = false;
  if (auto found = endpoints_.find(kid.endpoint); found != endpoints_.end()) {
    // One that had nothing to do while others were at work did not die of it.
    idle = found->second.asked.empty();
    if (idle && std::exchange(kid.answers_then, child_answers_) != child_answers_) kid.deaths = 0;
    for (const auto& [request, range] : found->second.asked) {
      if (!open_.contains(range.batch)) continue;
      if (fault.position && refs_of(range).front().position >= *fault.position) continue;
      tell_samples(fault, range);
    }
  }
  endpoint_gone(std::exchange(kid.endpoint, 0), what);
  // We may be in a call from the link.
  loop_->post([dead = std::shared_ptr<ChildLink>(std::move(kid.link))] {});
  problem(what);
  if (++kid.deaths >= kMaxDeaths || too_slow) {
    fault.error =
        unavailable(what + (too_slow ? "" : ", the " + std::to_string(kid.deaths) + "th time in a row") +
                    (lines.empty() ? "" : "; its last lines:\n" + lines));
    return fail_stream(std::move(fault));
  }
  kid.idle_deaths = idle ? kid.idle_deaths + 1 : 0;
  const int64_t pause =
      kid.idle_deaths < 3 ? 0 : kFirstPauseNs << std::min(kid.idle_deaths - 3, kMostDoublings);
  log_line(LogLevel::kWarn, "feed",
           what + "; started again" +
               (pause == 0 ? ""
                           : " after " + std::to_string(pause / 1'000'000) + " ms, for it has ended " +
                                 std::to_string(kid.idle_deaths) + " times in a row"));
  if (pause != 0) {
    kid.again_ns = monotonic_ns() + pause;
    return;
  }
  if (auto started = start_kid(kid); !started.ok()) fail_stream(fault_of(started.error()));
}

}  // namespace stoker::feed
