// SPDX-License-Identifier: Apache-2.0
// One connection of a worker: what the client says.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "feed/cores.h"
#include "feed/worker_core.h"

namespace stoker::feed {

Session::Session(WorkerCore& core, std::string token, bool local)
    : since_ns(monotonic_ns()),
      core_(core),
      local_(local),
      handshake_(Handshake::listening(std::move(token), static_cast<uint32_t>(core.options().threads))) {}

Status Session::start(wire::Loop& loop, UniqueFd socket) {
  STOKER_ASSIGN(link_, wire::Link::start(loop, std::move(socket),
                                         local_ ? wire::LinkKind::kLocal : wire::LinkKind::kTcp, *this));
  return ok();
}

Result<std::vector<wire::Piece>> Session::on_header(wire::Link&, const wire::Header& header) {
  if (!through()) {
    STOKER_TRY(handshake_.check_header(header));
    return std::vector<wire::Piece>{};
  }
  uint64_t limit = 0;
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kPlan:
      limit = kMaxPlanJson + kMaxAttachment;
      break;
    case MessageType::kRequest:
      limit = uint64_t{kMaxRowsInRequest} * 16;
      break;
    default:
      break;
  }
  if (header.length > limit)
    return invalid("a message of type " + std::to_string(header.type) + " with " +
                   std::to_string(header.length) + " bytes");
  return std::vector<wire::Piece>{};
}

Status Session::on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t>) {
  if (!through()) return handshake_.on_frame(link, header);
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kPlan:
      return on_plan(header, link.payload());
    case MessageType::kPlanEnd:
      plans.erase(header.plan);
      return ok();
    case MessageType::kRequest:
      return on_request(header, link.payload());
    case MessageType::kCancel:
      if (auto found = jobs.find(header.request); found != jobs.end()) {
        auto job = found->second;
        core_.cancel_job(job);
      }
      return ok();
    case MessageType::kHurry:
      if (auto found = jobs.find(header.request); found != jobs.end() && found->second->unit)
        found->second->plan->pool->hurry(*found->second, static_cast<int64_t>(header.a));
      return ok();
    case MessageType::kPing: {
      wire::Header pong = header_of(MessageType::kPong);
      pong.a = header.a;
      link.send(pong);
      return ok();
    }
    case MessageType::kPace:
      if (!local_) return invalid("a pace from one who is no parent");
      core_.set_pace(header.a);
      return ok();
    case MessageType::kSlot:
      return on_slot(header);
    case MessageType::kSlotDrop:
      slots_.erase(header.a);
      return ok();
    default:
      return invalid("a message of type " + std::to_string(header.type));
  }
}

void Session::on_closed(wire::Link&, const Error& error) {
  if (!through() && error.code == Code::kDenied) core_.count_refused_token();
  if (error.code != Code::kUnavailable)
    log_line(LogLevel::kWarn, "feed-worker", "a client was let go: " + error.message);
  core_.session_over(*this);
}

Status Session::on_plan(const wire::Header& header, ByteView payload) {
  if (header.a > payload.size() || header.a > kMaxPlanJson)
    return invalid("a plan whose JSON is longer than its frame");
  if (plans.size() >= kMaxPlans || plans.count(header.plan))
    return invalid("more plans than one connection may have");
  std::string json(as_text(payload.first(header.a)));
  ByteView rest = payload.subspan(header.a);
  auto plan = core_.open_plan(std::move(json), {rest.begin(), rest.end()});
  plans[header.plan] = plan;
  if (plan->ready || plan->refused) answer_plan(header.plan, *plan);
  return ok();
}

void Session::plan_decided(const std::shared_ptr<OpenPlan>& plan) {
  std::vector<uint32_t> numbers;
  for (auto& [number, one] : plans)
    if (one == plan) numbers.push_back(number);
  for (uint32_t number : numbers) answer_plan(number, *plan);
}

void Session::answer_plan(uint32_t number, const OpenPlan& plan) {
  if (plan.refused) {
    std::string text = fault_to_json(*plan.refused, core_.address());
    link_->send(header_of(MessageType::kPlanNo, number), {text.begin(), text.end()});
    plans.erase(number);
    return;
  }
  wire::Header header = header_of(MessageType::kPlanOk, number);
  header.d = plan.pool ? plan.pool->size() : static_cast<uint32_t>(core_.options().threads);
  std::string text = plan.producer ? plan.layout.to_json().dump() : Json().set("cpu", cpu_class()).dump();
  link_->send(header, {text.begin(), text.end()});
}

Status Session::on_slot(const wire::Header& header) {
  UniqueFd fd = link_->take_descriptor();
  if (!local_ || !fd) return invalid("a slot without a descriptor");
  STOKER_ASSIGN(Mapping mapping, Mapping::of_fd(fd.get(), header.b, true, true));
  slots_[header.a] = std::make_shared<Mapping>(std::move(mapping));
  return ok();
}

Status Session::on_request(const wire::Header& header, ByteView payload) {
  auto plan = plans.find(header.plan);
  if (plan == plans.end() || !plan->second->ready) return invalid("a request for a plan that is not open");
  if (jobs.size() >= kMaxOpenRequests || jobs.count(header.request))
    return invalid("more requests than one connection may have");
  auto job = std::make_shared<Job>();
  job->session = shared_from_this();
  job->plan = plan->second;
  job->plan_number = header.plan;
  job->request = header.request;
  job->batch = header.a;
  STOKER_ASSIGN(job->refs, decode_refs(payload, header.d));
  job->unit = header.flags & kFlagUnit;
  bool in_slot = header.flags & kFlagInSlot;
  if (job->unit != static_cast<bool>(job->plan->pool) || in_slot != local_)
    return invalid("a request that does not fit its plan or its connection");
  if (in_slot) {
    auto slot = slots_.find(header.b);
    uint64_t first = header.c & 0xffffffff, rows = header.c >> 32;
    const Layout& layout = job->plan->layout;
    if (slot == slots_.end() || rows > kMaxRowsInRequest || first + header.d > rows ||
        layout.slot_bytes(rows) > slot->second->bytes().size())
      return invalid("a request for rows that do not fit their slot");
    job->slot = slot->second;
    job->base = job->slot->writable().data();
    job->leaf_at = layout.leaf_offsets(rows);
    for (size_t k = 0; k < layout.leaves.size(); ++k) job->leaf_at[k] += first * layout.leaves[k].row_bytes;
  }
  core_.add_job(std::move(job));
  return ok();
}

}  // namespace stoker::feed
