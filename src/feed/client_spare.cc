// SPDX-License-Identifier: Apache-2.0
// The client's spare workers as endpoints: what they are asked for lies in memory of its own until it is
// whole, so that one that stops in the middle holds up nobody.
#include <algorithm>

#include "base/clock.h"
#include "feed/client_core.h"
#include "feed/cores.h"

namespace stoker::feed {

void ClientCore::let_spare(bool take_part) {
  assigner_.let_spare(take_part);
  step();
}

bool ClientCore::is_asked(EndpointId id) const {
  auto found = endpoints_.find(id);
  return found != endpoints_.end() && !found->second.asked.empty();
}

void ClientCore::spare_ready(SpareWorkers::Kid& kid, const Json& reply) {
  if (!options_.units) {
    auto theirs = Layout::from_json(reply);
    if (!theirs.ok() || !layout_ || !(*theirs == *layout_))
      return spare_->give_up("they make rows of another layout than the feed workers: " + reply.dump());
  }
  kid.endpoint = next_endpoint_++;
  endpoints_[kid.endpoint].who = &kid;
  assigner_.spare_joined(kid.endpoint, kid.parallel, monotonic_ns());
  step();
}

// What Python computes is the same on CPUs of one class.
void ClientCore::compare_cpu(const DistantWorker& worker, const Json& reply) {
  const std::string theirs = reply["cpu"].as_string();
  if (!spare_ || !options_.units || theirs.empty() || theirs == cpu_class()) return;
  spare_->give_up("feed worker " + worker.address() + " has another CPU (" + theirs + ", here " +
                  cpu_class() + "), on which Python code may compute other last bits");
}

Status ClientCore::ask_spare(SpareWorkers::Kid& kid, uint32_t request, RangeId range,
                             const std::vector<Ref>& refs) {
  if (options_.units) return kid.link->ask_unit(request, range.batch, refs, unit_estimate_);
  STOKER_ASSIGN(wire::SlotRef slot, scratch_->take(layout_->slot_bytes(refs.size())));
  kid.slots[request] = slot;
  return kid.link->ask_rows(request, range.batch, refs, std::move(slot), 0,
                            static_cast<uint32_t>(refs.size()), layout_->leaves.size());
}

void ClientCore::spare_rows(SpareWorkers::Kid& kid, uint32_t request, wire::Slot& slot,
                            const std::vector<uint64_t>& hashes, const RowCounts& counts) {
  auto range = take_asked(kid.endpoint, request);
  if (!range) return;
  const size_t leaves = layout_->leaves.size(), rows = hashes.size() / leaves;
  const auto offsets = layout_->leaf_offsets(rows);
  for (size_t row = 0; row < rows; ++row) {
    if (!worth_checking() || row_is_whole(slot, offsets, row, &hashes[row * leaves])) continue;
    ++corrupt_;
    assigner_.failed(*range, kid.endpoint, true, monotonic_ns());
    return spare_->kill(kid, "was killed: a row in shared memory is not what it wrote");
  }
  const auto verdict = assigner_.answered(*range, kid.endpoint, monotonic_ns());
  auto found = open_.find(range->batch);
  if (verdict == Assigner::Verdict::kFirst && found != open_.end() && found->second.slot) {
    copy_rows(*range, rows, slot);
    row_counts_ += counts;
    rows_counted(*range, hashes);
  } else if (verdict == Assigner::Verdict::kAgain) {
    same_as_before(*range, hashes);
  }
  step();
}

void ClientCore::spare_unit(SpareWorkers::Kid& kid, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                            uint64_t hash) {
  auto range = take_asked(kid.endpoint, request);
  if (!range) return;
  if (worth_checking() && wire::block_hash(slot->bytes().first(bytes)) != hash) {
    ++corrupt_;
    assigner_.failed(*range, kid.endpoint, true, monotonic_ns());
    return spare_->kill(kid, "was killed: a batch in shared memory is not what it wrote");
  }
  const auto verdict = assigner_.answered(*range, kid.endpoint, monotonic_ns());
  scratch_->hand_over(*slot);  // it is written, and many may wait to be taken
  unit_made(*range, verdict, std::move(slot), bytes, hash);
  step();
}

void ClientCore::spare_failed(SpareWorkers::Kid& kid, uint32_t request) {
  if (auto range = take_asked(kid.endpoint, request)) {
    assigner_.failed(*range, kid.endpoint, true, monotonic_ns());
    if (!assigner_.in_flight(*range)) compare_.erase(*range);
  }
  step();
}

void ClientCore::spare_cancelled(SpareWorkers::Kid& kid, uint32_t request) {
  range_cancelled(kid.endpoint, request);
  step();
}

void ClientCore::spare_gone(EndpointId id, const std::string& why) {
  endpoint_gone(id, why);
  step();
}

}  // namespace stoker::feed
