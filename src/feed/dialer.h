// SPDX-License-Identifier: Apache-2.0
// Dialer: keeps a proven connection to one address: connects, shakes hands, pings, and connects again with
// growing pauses when it is lost, until stop(). Who is let go after the proof of its token was refused it, or
// the peer just died: the second time in a row it counts as refused. Confined to its loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "feed/handshake.h"
#include "feed/protocol.h"
#include "wire/link.h"
#include "wire/tcp.h"

namespace stoker::feed {

class DialerHandler {
 public:
  virtual ~DialerHandler() = default;
  virtual void on_up() = 0;  // both have proven the token
  virtual Result<std::vector<wire::Piece>> on_message_header(const wire::Header& header) = 0;
  virtual Status on_message(const wire::Header& header, std::span<const uint64_t> hashes) = 0;
  // Was up. `ended`: the peer closed it between two messages, as one does that has done its work.
  virtual void on_down(const Error& error, bool ended) = 0;
  virtual void on_problem(const Error& error) = 0;  // did not get up
  // Did not get up, again: the peer has another token. It is dialled on, since another may come in its place.
  virtual void on_refused(const Error& error) = 0;
};

class Dialer : wire::LinkHandler {
 public:
  Dialer(wire::Loop& loop, std::string address, std::string token, Role role, DialerHandler& handler);
  ~Dialer() override { stop(); }

  void start();
  void stop();
  bool up() const { return up_; }
  wire::Link& link() { return *link_; }  // while up
  const std::string& address() const { return address_; }
  void count_starved(wire::Overlap& in) { starved_in_ = &in; }  // before start(); of all its links
  uint64_t received_bytes() const { return received_before_ + (link_ ? link_->received_bytes() : 0); }

 private:
  Status connect();
  void lost(const Error& error, bool ended = false);
  void tick();
  Result<std::vector<wire::Piece>> on_header(wire::Link& link, const wire::Header& header) override;
  Status on_frame(wire::Link& link, const wire::Header& header, std::span<const uint64_t> hashes) override;
  void on_closed(wire::Link& link, const Error& error) override;

  wire::Loop& loop_;
  const std::string address_;
  const std::string token_;
  const Role role_;
  DialerHandler& handler_;
  std::shared_ptr<wire::Link> link_;
  Handshake handshake_;
  bool up_ = false;
  int64_t pause_ns_ = 0;
  int refusals_ = 0;  // in a row
  int64_t started_ns_ = 0;
  int64_t pinged_ns_ = 0;
  uint64_t received_before_ = 0;
  wire::Overlap* starved_in_ = nullptr;
  std::optional<wire::Loop::Timer> timer_;
};

}  // namespace stoker::feed
