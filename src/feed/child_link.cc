// SPDX-License-Identifier: Apache-2.0
#include "feed/child_link.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace stoker::feed {
namespace {
constexpr uint32_t kPlan = 1;  // a child has one
constexpr int64_t kLingerNs = 1'000'000'000;
}  // namespace

Result<std::unique_ptr<ChildLink>> ChildLink::start(wire::Loop& loop, const wire::ChildCommand& command,
                                                    std::shared_ptr<const SentPlan> plan,
                                                    std::shared_ptr<wire::SlotPool> pool,
                                                    ChildHandler& handler, int64_t start_ns) {
  std::unique_ptr<ChildLink> made(new ChildLink(loop, std::move(pool), handler));
  ChildLink* raw = made.get();
  STOKER_ASSIGN(made->child_,
                wire::Child::start(loop, command, [raw](const std::string& how) { raw->gone(how); }));
  STOKER_ASSIGN(made->link_,
                wire::Link::start(loop, made->child_->take_socket(), wire::LinkKind::kLocal, *made));
  send_plan(*made->link_, kPlan, std::move(plan));
  made->start_limit_ =
      loop.at(monotonic_ns() + start_ns, [raw, start_ns] { raw->start_took_too_long(start_ns); });
  return made;
}

ChildLink::~ChildLink() {
  if (start_limit_) loop_.cancel(*start_limit_);
  if (linger_) loop_.cancel(*linger_);
  gone_ = true;
  kill();
}

void ChildLink::start_took_too_long(int64_t limit_ns) {
  start_limit_.reset();
  if (ready_ || gone_) return;
  too_slow_ = true;
  kill();
  handler_.on_child_gone(*this, "had not opened the data set after " +
                                    std::to_string(limit_ns / 1'000'000'000) + " s, and was killed");
}

std::string ChildLink::kill() {
  gone_ = true;
  if (link_) link_->close();  // neither is there when it could not be started
  std::string how = child_ ? child_->kill_and_reap() : "was never started";
  asked_.clear();
  return how;
}

Status ChildLink::send_slot(wire::Slot& slot) {
  if (slots_sent_.count(slot.id())) return ok();
  UniqueFd descriptor(fcntl(slot.descriptor(), F_DUPFD_CLOEXEC, 10));
  if (!descriptor) return errno_error("giving a slot to a worker process", errno);
  slots_sent_.insert(slot.id());
  wire::Header header = header_of(MessageType::kSlot);
  header.a = slot.id();
  header.b = slot.bytes().size();
  link_->send(header, {}, {}, {}, std::move(descriptor));
  return ok();
}

void ChildLink::drop_slots(const std::vector<uint64_t>& gone) {
  for (uint64_t id : gone) {
    if (slots_sent_.erase(id) == 0) continue;
    wire::Header header = header_of(MessageType::kSlotDrop);
    header.a = id;
    link_->send(header);
  }
}

Status ChildLink::ask_rows(uint32_t request, uint64_t batch, const std::vector<Ref>& refs, wire::SlotRef slot,
                           uint32_t first_row, uint32_t slot_rows, size_t leaves) {
  STOKER_TRY(send_slot(*slot));
  wire::Header header = header_of(MessageType::kRequest, kPlan, request);
  header.flags = kFlagInSlot;
  header.a = batch;
  header.b = slot->id();
  header.c = uint64_t{slot_rows} << 32 | first_row;
  header.d = static_cast<uint32_t>(refs.size());
  asked_[request] = {std::move(slot), header.d, leaves};
  link_->send(header, encode_refs(refs));
  return ok();
}

Status ChildLink::ask_unit(uint32_t request, uint64_t batch, const std::vector<Ref>& refs,
                           uint64_t expected_bytes) {
  STOKER_ASSIGN(wire::SlotRef slot, pool_->take(expected_bytes));
  STOKER_TRY(send_slot(*slot));
  wire::Header header = header_of(MessageType::kRequest, kPlan, request);
  header.flags = kFlagInSlot | kFlagUnit;
  header.a = batch;
  header.b = slot->id();
  header.d = static_cast<uint32_t>(refs.size());
  asked_[request] = {std::move(slot), header.d, 0};
  link_->send(header, encode_refs(refs));
  return ok();
}

void ChildLink::cancel(uint32_t request) {
  if (asked_.count(request)) link_->send(header_of(MessageType::kCancel, kPlan, request));
}

void ChildLink::pace(uint64_t millionths) {
  wire::Header header = header_of(MessageType::kPace);
  header.a = millionths;
  link_->send(header);
}

Result<std::vector<wire::Piece>> ChildLink::on_header(wire::Link&, const wire::Header& header) {
  if (header.length > std::max<uint64_t>(kMaxJson, uint64_t{kMaxRowsInRequest} * 256 * 8))
    return invalid("a child sent a message of " + std::to_string(header.length) + " bytes");
  return std::vector<wire::Piece>{};
}

Status ChildLink::on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t>) {
  auto type = static_cast<MessageType>(header.type);
  if (type == MessageType::kPlanOk) {
    STOKER_ASSIGN(Json reply,
                  link.payload().empty() ? Result<Json>(Json()) : Json::parse(as_text(link.payload())));
    ready_ = true;
    if (auto limit = std::exchange(start_limit_, {})) loop_.cancel(*limit);
    handler_.on_child_ready(*this, reply, std::clamp(header.d, 1U, 4096U));
    return ok();
  }
  if (type == MessageType::kPlanNo) {
    handler_.on_child_refused(*this, fault_from_json(as_text(link.payload())));
    return ok();
  }
  if (type == MessageType::kTimes) {
    if (link.payload().size() > kMaxJson) return invalid("a child sent times of more than a mebibyte");
    handler_.on_child_times(*this, as_text(link.payload()));
    return ok();
  }
  if (type != MessageType::kNeed && type != MessageType::kDone && type != MessageType::kError &&
      type != MessageType::kCancelled)
    return invalid("a child sent a message of type " + std::to_string(header.type));
  auto found = asked_.find(header.request);
  if (found == asked_.end()) return invalid("a child answered a request that it was not given");
  if (type == MessageType::kNeed) {
    if (found->second.leaves > 0 || header.a > kMaxUnit)
      return invalid("a child wants " + std::to_string(header.a) + " bytes for a unit");
    STOKER_ASSIGN(found->second.slot, pool_->take(header.a));
    STOKER_TRY(send_slot(*found->second.slot));
    wire::Header grant = header_of(MessageType::kGrant, kPlan, header.request);
    grant.b = found->second.slot->id();
    link.send(grant);
    return ok();
  }
  Asked asked = std::move(found->second);
  asked_.erase(found);
  switch (type) {
    case MessageType::kDone:
      if (asked.leaves == 0) {
        if (header.a > asked.slot->bytes().size())
          return invalid("a child says that a unit is larger than its slot");
        handler_.on_child_unit(*this, header.request, std::move(asked.slot), header.a, header.c);
        return ok();
      } else {
        std::vector<uint64_t> hashes(asked.rows * asked.leaves);
        if (link.payload().size() != hashes.size() * sizeof hashes[0])
          return invalid("a child sent hashes of another number of rows");
        std::memcpy(hashes.data(), link.payload().data(), link.payload().size());
        handler_.on_child_rows(*this, header.request, std::move(hashes), row_counts_of(header));
        return ok();
      }
    case MessageType::kError:
      handler_.on_child_error(*this, header.request, fault_from_json(as_text(link.payload())));
      return ok();
    default:
      handler_.on_child_cancelled(*this, header.request);
      return ok();
  }
}

// Usually the process is ending, and its exit status says more than our SIGKILL would: give it a moment.
void ChildLink::on_closed(wire::Link&, const Error& error) {
  if (gone_) return;
  bool broke_protocol = error.code == Code::kInvalid;
  linger_ = loop_.at(monotonic_ns() + (broke_protocol ? 0 : kLingerNs), [this, why = error.message] {
    linger_.reset();
    if (!gone_) gone(child_->kill_and_reap() + " (" + why + ")");
  });
}

void ChildLink::gone(const std::string& how) {
  if (gone_) return;
  link_->read_now();  // its last words, e.g. why it refused the plan
  if (std::exchange(gone_, true)) return;
  link_->close();
  asked_.clear();
  handler_.on_child_gone(*this, how);
}

}  // namespace stoker::feed
