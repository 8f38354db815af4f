// SPDX-License-Identifier: Apache-2.0
#include "feed/dialer.h"

#include <algorithm>

#include "base/clock.h"

namespace stoker::feed {
namespace {
constexpr int64_t kFirstPauseNs = 50'000'000;
constexpr int64_t kLongestPauseNs = 1'000'000'000;
constexpr int kRefusals = 2;
}  // namespace

Dialer::Dialer(wire::Loop& loop, std::string address, std::string token, Role role, DialerHandler& handler)
    : loop_(loop),
      address_(std::move(address)),
      token_(std::move(token)),
      role_(role),
      handler_(handler),
      handshake_(Handshake::connecting(token_, role)) {}

void Dialer::start() {
  if (auto connected = connect(); !connected.ok()) lost(connected.error());
}

void Dialer::stop() {
  up_ = false;
  if (timer_) loop_.cancel(*timer_);
  timer_.reset();
  if (link_) {
    received_before_ += link_->received_bytes();
    link_->close();
  }
  link_.reset();
}

Status Dialer::connect() {
  timer_.reset();
  started_ns_ = monotonic_ns();
  STOKER_ASSIGN(wire::Address address, wire::parse_address(address_));
  STOKER_ASSIGN(UniqueFd socket, wire::start_connecting_tcp(address));
  STOKER_ASSIGN(link_, wire::Link::start(loop_, std::move(socket), wire::LinkKind::kTcp, *this, true));
  if (starved_in_) link_->count_starved(*starved_in_);
  handshake_ = Handshake::connecting(token_, role_);
  STOKER_TRY(handshake_.begin(*link_));
  timer_ = loop_.at(started_ns_ + kPingEveryNs, [this] { tick(); });
  return ok();
}

void Dialer::tick() {
  timer_.reset();
  int64_t now = monotonic_ns();
  if (!up_ && now - started_ns_ > kHandshakeNs)
    return lost({Code::kDeadline, "no answer from " + address_ + " in 5 s", {}});
  if (up_ && pinged_ns_ > link_->last_heard_ns() && now - link_->last_heard_ns() > kSilenceNs)
    return lost({Code::kDeadline, address_ + " has been silent for 10 s", {}});
  if (up_) {
    if (pinged_ns_ <= link_->last_heard_ns()) pinged_ns_ = now;
    if (pinged_ns_ == now) link_->send(header_of(MessageType::kPing));
  }
  timer_ = loop_.at(now + kPingEveryNs, [this] { tick(); });
}

void Dialer::lost(const Error& error, bool ended) {
  if (link_) {
    received_before_ += link_->received_bytes();
    link_->close();
    link_.reset();
  }
  if (timer_) loop_.cancel(*timer_);
  bool was_up = std::exchange(up_, false);
  pause_ns_ = was_up ? kFirstPauseNs : std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  timer_ = loop_.at(monotonic_ns() + pause_ns_, [this] {
    if (auto connected = connect(); !connected.ok()) lost(connected.error());
  });
  refusals_ = error.code == Code::kDenied ? refusals_ + 1 : 0;
  if (was_up)
    handler_.on_down(error, ended);
  else if (refusals_ >= kRefusals)
    handler_.on_refused(error);
  else
    handler_.on_problem(error);
}

Result<std::vector<wire::Piece>> Dialer::on_header(wire::Link&, const wire::Header& header) {
  if (!up_) {
    STOKER_TRY(handshake_.check_header(header));
    return std::vector<wire::Piece>{};
  }
  if (header.type == static_cast<uint8_t>(MessageType::kPong)) {
    if (header.length > 0) return invalid("a pong with a payload");
    return std::vector<wire::Piece>{};
  }
  return handler_.on_message_header(header);
}

Status Dialer::on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t> hashes) {
  if (!up_) {
    STOKER_TRY(handshake_.on_frame(link, header));
    if (!handshake_.through()) return ok();
    up_ = true;
    pause_ns_ = 0;
    handler_.on_up();
    return ok();
  }
  if (header.type == static_cast<uint8_t>(MessageType::kPong)) return ok();
  return handler_.on_message(header, hashes);
}

void Dialer::on_closed(wire::Link& link, const Error& error) {
  if (!up_ && handshake_.proven() && (error.code == Code::kUnavailable || error.code == Code::kDenied))
    return lost({Code::kDenied,
                 address_ +
                     " refuses the token: it was probably started with another one; give both the same "
                     "file (--token-file, or $STOKER_FEED_TOKEN_FILE of a training script)",
                 {}});
  lost(Error(error).during(address_), link.ended());
}

}  // namespace stoker::feed
