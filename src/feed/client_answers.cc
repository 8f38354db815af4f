// SPDX-License-Identifier: Apache-2.0
// The client's answers from distant workers: where their bytes go, whether they are whole, and what is done
// with them.
#include <cstring>

#include "base/clock.h"
#include "feed/client_core.h"

namespace stoker::feed {

Result<std::vector<wire::Piece>> ClientCore::answer_target(DistantWorker& worker,
                                                           const wire::Header& header) {
  Endpoint& endpoint = endpoints_.at(worker.endpoint);
  auto asked = endpoint.asked.find(header.request);
  if (asked == endpoint.asked.end()) return invalid(worker.address() + " answered what it was not asked");
  RangeId range = asked->second;
  bool drop = assigner_.answered_already(range) || open_.count(range.batch) == 0 || over_;
  endpoint.incoming.reset();
  endpoint.in_place = false;
  endpoint.dropped = drop;
  if (static_cast<MessageType>(header.type) == MessageType::kUnit) {
    if (!options_.units || header.length > kMaxUnit)
      return invalid(worker.address() + " sent a unit of " + std::to_string(header.length) + " bytes");
    endpoint.table = {header.c};
    if (header.length == 0) return std::vector<wire::Piece>{};
    if (drop) return std::vector<wire::Piece>{{nullptr, header.length, false}};
    STOKER_ASSIGN(endpoint.incoming, pool_->take(header.length));
    return std::vector<wire::Piece>{{endpoint.incoming->bytes().data(), header.length, true}};
  }
  uint32_t rows = assigner_.rows_of(range);
  size_t leaves = layout_->leaves.size();
  endpoint.table.resize(rows * leaves);
  uint64_t table_bytes = endpoint.table.size() * sizeof endpoint.table[0];
  if (options_.units || header.d != rows || header.length != table_bytes + rows * layout_->row_bytes())
    return invalid(worker.address() + " sent another number of rows than it was asked");
  std::vector<wire::Piece> pieces;
  pieces.reserve(1 + rows * leaves);
  pieces.push_back({reinterpret_cast<uint8_t*>(endpoint.table.data()), table_bytes, false});
  if (drop) {
    pieces.push_back({nullptr, header.length - table_bytes, false});
    return pieces;
  }
  Open& batch = open_.at(range.batch);
  uint64_t slot_rows = rows, first = 0;
  if (receiving_.emplace(range, worker.endpoint).second) {
    endpoint.in_place = true;
    endpoint.incoming = batch.slot;
    slot_rows = batch.refs.size();
    first = range.first;
  } else {
    STOKER_ASSIGN(endpoint.incoming, scratch_->take(layout_->slot_bytes(rows)));
  }
  std::vector<uint64_t> offsets = layout_->leaf_offsets(slot_rows);
  for (size_t k = 0; k < leaves; ++k) {
    uint64_t size = layout_->leaves[k].row_bytes;
    uint8_t* at = endpoint.incoming->bytes().data() + offsets[k] + first * size;
    for (uint32_t row = 0; row < rows; ++row) pieces.push_back({at + row * size, size, true});
  }
  return pieces;
}

bool ClientCore::is_intact(const Endpoint& endpoint, const wire::Header& header,
                           std::span<const uint64_t> hashes) const {
  if (static_cast<MessageType>(header.type) == MessageType::kUnit)
    return header.length == 0 ? header.c == wire::block_hash({}) : hashes[0] == header.c;
  // The worker's table goes row by row, ours leaf by leaf, behind the piece that is the table itself.
  size_t leaves = layout_->leaves.size(), rows = endpoint.table.size() / leaves;
  bool intact = true;
  for (size_t row = 0; row < rows; ++row)
    for (size_t k = 0; k < leaves; ++k)
      intact &= endpoint.table[row * leaves + k] == hashes[1 + k * rows + row];
  return intact;
}

// Of a hedge, or of a spare worker.
void ClientCore::copy_rows(RangeId range, size_t rows, wire::Slot& from_slot) {
  // Who is still writing into the batch's rows stops doing so first.
  if (auto slower = receiving_.find(range); slower != receiving_.end()) {
    Endpoint& other = endpoints_.at(slower->second);
    std::get<DistantWorker*>(other.who)->discard_rows();
    other.in_place = false;
    receiving_.erase(slower);
  }
  Open& batch = open_.at(range.batch);
  auto from = layout_->leaf_offsets(rows), to = layout_->leaf_offsets(batch.refs.size());
  for (size_t k = 0; k < layout_->leaves.size(); ++k) {
    uint64_t size = layout_->leaves[k].row_bytes;
    std::memcpy(batch.slot->bytes().data() + to[k] + range.first * size, from_slot.bytes().data() + from[k],
                rows * size);
  }
}

Status ClientCore::answer_came(DistantWorker& worker, const wire::Header& header,
                               std::span<const uint64_t> hashes) {
  EndpointId id = worker.endpoint;
  Endpoint& endpoint = endpoints_.at(id);
  RangeId range = endpoint.asked.at(header.request);
  wire::SlotRef incoming = std::move(endpoint.incoming);
  bool is_unit = static_cast<MessageType>(header.type) == MessageType::kUnit;
  bool in_place = std::exchange(endpoint.in_place, false);
  if (in_place) receiving_.erase(range);
  // An answer that was thrown away as it came has no hashes of its own.
  if (!endpoint.dropped && !assigner_.answered_already(range) && !is_intact(endpoint, header, hashes)) {
    ++corrupt_;
    return Error{Code::kData, "samples were damaged on their way from " + worker.address(), {}};
  }
  endpoint.asked.erase(header.request);
  auto verdict = assigner_.answered(range, id, monotonic_ns());
  if (verdict == Assigner::Verdict::kAgain) {
    same_as_before(range, endpoint.table);
  } else if (verdict == Assigner::Verdict::kFirst && !endpoint.dropped && open_.count(range.batch)) {
    Open& batch = open_.at(range.batch);
    if (is_unit) {
      if (!incoming) {
        STOKER_ASSIGN(incoming, pool_->take(0));
      }
      batch.slot = std::move(incoming);
      batch.unit_bytes = header.length;
      unit_size_known(range.batch, header.length);
    } else if (!in_place) {
      copy_rows(range, endpoint.table.size() / layout_->leaves.size(), *incoming);
    }
    if (!is_unit) row_counts_ += row_counts_of(header);
    rows_counted(range, endpoint.table);
  }
  step();
  return ok();
}

}  // namespace stoker::feed
