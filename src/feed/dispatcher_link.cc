// SPDX-License-Identifier: Apache-2.0
#include "feed/dispatcher_link.h"

#include "base/clock.h"
#include "base/log.h"

namespace stoker::feed {

DispatcherLink::DispatcherLink(wire::Loop& loop, const std::string& address, const std::string& token,
                               std::function<void()> on_up)
    : on_up_(std::move(on_up)), dialer_(loop, address, token, Role::kWorker, *this) {}

void DispatcherLink::start() {
  stopped_ = false;
  away_since_ns_ = monotonic_ns();
  dialer_.start();
}

void DispatcherLink::stop() {
  stopped_ = true;
  if (dialer_.up()) dialer_.link().send(header_of(MessageType::kGoodbye));
  dialer_.stop();
}

void DispatcherLink::send_about(const std::string& json) {
  if (dialer_.up()) dialer_.link().send(header_of(MessageType::kRegister), {json.begin(), json.end()});
}

void DispatcherLink::tick(int64_t now_ns) {
  if (stopped_ || dialer_.up() || told_ || now_ns - away_since_ns_ < kSilenceNs) return;
  tell("the dispatcher " + dialer_.address() + " has not been there for 10 s (" + last_ +
       "); it is dialled on, and clients that know us are served");
}

void DispatcherLink::tell(const std::string& what) {
  told_ = true;
  log_line(LogLevel::kWarn, "feed-worker", what);
}

void DispatcherLink::on_up() {
  if (std::exchange(told_, false))
    log_line(LogLevel::kInfo, "feed-worker", "the dispatcher " + dialer_.address() + " is there again");
  on_up_();
}

Result<std::vector<wire::Piece>> DispatcherLink::on_message_header(const wire::Header& header) {
  return invalid("the dispatcher sent a message of type " + std::to_string(header.type));
}

Status DispatcherLink::on_message(const wire::Header&, std::span<const uint64_t>) { return ok(); }

void DispatcherLink::on_down(const Error& error, bool ended) {
  away_since_ns_ = monotonic_ns();
  last_ = error.message;
  // One that breaks is dialled again, and at a job's end nobody asks: tick() tells of one that stays away.
  if (!ended && error.code == Code::kInvalid)
    tell("the connection to the dispatcher broke: " + error.message);
}

void DispatcherLink::on_refused(const Error& error) {
  last_ = error.message;
  if (!told_) tell("the dispatcher " + error.message);
}

}  // namespace stoker::feed
