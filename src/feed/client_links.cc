// SPDX-License-Identifier: Apache-2.0
// The client's connections: distant workers and the dispatcher.
#include <algorithm>

#include "base/clock.h"
#include "feed/client_core.h"
#include "feed/reports.h"

namespace stoker::feed {
namespace {
constexpr uint32_t kPlan = 1;  // a client has one
}

DistantWorker::DistantWorker(ClientCore& core, wire::Loop& loop, const std::string& address,
                             const std::string& token)
    : core_(core), dialer_(loop, address, token, Role::kClient, *this) {}

void DistantWorker::on_up() {
  refused_ = denied_ = false;
  planned_ns_ = monotonic_ns();
  send_plan(dialer_.link(), kPlan, core_.plan());
}

bool DistantWorker::may_come() const {
  return dialer_.up() && !refused_ && monotonic_ns() - planned_ns_ < core_.plan_ns();
}

void DistantWorker::ask(uint32_t request, uint64_t batch, const std::vector<Ref>& refs, bool unit) {
  wire::Header header = header_of(MessageType::kRequest, kPlan, request);
  header.flags = unit ? kFlagUnit : 0;
  header.a = batch;
  header.d = static_cast<uint32_t>(refs.size());
  dialer_.link().send(header, encode_refs(refs));
}

void DistantWorker::cancel(uint32_t request) {
  dialer_.link().send(header_of(MessageType::kCancel, kPlan, request));
}

void DistantWorker::hurry(uint32_t request, int64_t limit_ns) {
  wire::Header header = header_of(MessageType::kHurry, kPlan, request);
  header.a = static_cast<uint64_t>(limit_ns);
  dialer_.link().send(header);
}

Result<std::vector<wire::Piece>> DistantWorker::on_message_header(const wire::Header& header) {
  auto type = static_cast<MessageType>(header.type);
  if (endpoint != 0 && (type == MessageType::kRows || type == MessageType::kUnit))
    return core_.answer_target(*this, header);
  if (header.length > kMaxJson)
    return invalid(address() + " sent a message of " + std::to_string(header.length) + " bytes");
  return std::vector<wire::Piece>{};
}

Status DistantWorker::on_message(const wire::Header& header, std::span<const uint64_t> hashes) {
  std::string_view text = as_text(dialer_.link().payload());
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kPlanOk: {
      if (endpoint != 0) return invalid(address() + " accepted the plan twice");
      STOKER_ASSIGN(Json reply, text.empty() ? Result<Json>(Json()) : Json::parse(text));
      core_.worker_ready(*this, reply, std::clamp(header.d, 1U, 4096U));
      return ok();
    }
    case MessageType::kPlanNo:
      refused_ = true;
      core_.worker_refused(*this, fault_from_json(text));
      return ok();
    case MessageType::kRows:
    case MessageType::kUnit:
      if (endpoint == 0) return invalid(address() + " answered before it had the plan");
      return core_.answer_came(*this, header, hashes);
    case MessageType::kError:
      core_.worker_error(*this, header.request, fault_from_json(text));
      return ok();
    case MessageType::kCancelled:
      core_.worker_cancelled(*this, header.request);
      return ok();
    case MessageType::kGoodbye:
      core_.worker_drains(*this);
      return ok();
    default:
      return invalid(address() + " sent a message of type " + std::to_string(header.type));
  }
}

void DistantWorker::on_down(const Error& error, bool) { core_.worker_down(*this, error); }
void DistantWorker::on_problem(const Error& error) {
  denied_ = false;
  core_.problem(error.message);
}
void DistantWorker::on_refused(const Error& error) {
  if (!std::exchange(denied_, true)) core_.token_denied(error, false);
}

void ClientCore::worker_error(DistantWorker& worker, uint32_t request, Fault fault) {
  fault.json.set("worker", worker.address());  // as figures call it; it may know itself as 0.0.0.0
  range_failed(worker.endpoint, request, fault);
  step();
}

void ClientCore::worker_cancelled(DistantWorker& worker, uint32_t request) {
  range_cancelled(worker.endpoint, request);
  step();
}

Subscription::Subscription(ClientCore& core, wire::Loop& loop, const std::string& address,
                           const std::string& token)
    : core_(core), dialer_(loop, address, token, Role::kClient, *this) {}

void Subscription::on_up() {
  denied_ = false;
  dialer_.link().send(header_of(MessageType::kSubscribe));
}

void Subscription::tell(const std::string& json) {
  if (dialer_.up()) dialer_.link().send(header_of(MessageType::kSubscribe), {json.begin(), json.end()});
}

Result<std::vector<wire::Piece>> Subscription::on_message_header(const wire::Header& header) {
  if (header.type != static_cast<uint8_t>(MessageType::kView) || header.length > kMaxJson)
    return invalid("the dispatcher sent a message of type " + std::to_string(header.type));
  return std::vector<wire::Piece>{};
}

Status Subscription::on_message(const wire::Header&, std::span<const uint64_t>) {
  STOKER_ASSIGN(Json view, Json::parse(as_text(dialer_.link().payload())));
  core_.view_changed(addresses_of(view));
  if (view.has("sizing")) core_.sizing_told(view["sizing"].dump());
  return ok();
}

void Subscription::on_problem(const Error& error) { core_.problem("the dispatcher: " + error.message); }
void Subscription::on_refused(const Error& error) {
  if (std::exchange(denied_, true)) return;
  core_.token_denied({error.code, "the dispatcher " + error.message, {}}, true);
}

}  // namespace stoker::feed
