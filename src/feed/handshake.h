// SPDX-License-Identifier: Apache-2.0
// Both sides of the handshake on a TCP link: docs/formats/wire.md. Confined to the link's loop.
#pragma once

#include <string>

#include "feed/protocol.h"
#include "wire/link.h"

namespace stoker::feed {

enum class Role : uint32_t { kClient = 1, kWorker = 2 };

class Handshake {
 public:
  // We connected: begin() says HELLO.
  static Handshake connecting(std::string token, Role role);
  // They connected; `threads` is told to them.
  static Handshake listening(std::string token, uint32_t threads);

  Status begin(wire::Link& link);
  bool through() const { return through_; }
  bool proven() const { return expected_ == MessageType::kWelcome; }  // we connected, and have sent our proof
  // For frames before it is through. An error: disconnect.
  Status check_header(const wire::Header& header) const;
  Status on_frame(wire::Link& link, const wire::Header& header);
  Role role() const { return role_; }  // of who connected

 private:
  Handshake(std::string token, bool listening) : token_(std::move(token)), listening_(listening) {}
  std::string token_;
  bool listening_;
  bool through_ = false;
  MessageType expected_ = MessageType::kHello;
  Role role_ = Role::kClient;
  uint32_t threads_ = 0;
  Nonce client_{}, server_{};
};

}  // namespace stoker::feed
