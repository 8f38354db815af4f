// SPDX-License-Identifier: Apache-2.0
#include "feed/handshake.h"

#include <algorithm>

namespace stoker::feed {
namespace {
Error refused(const std::string& why) { return {Code::kDenied, "the handshake failed: " + why, {}}; }
template <typename Bytes>
std::vector<uint8_t> copied(const Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}
}  // namespace

Handshake Handshake::connecting(std::string token, Role role) {
  Handshake handshake(std::move(token), false);
  handshake.role_ = role;
  handshake.expected_ = MessageType::kChallenge;
  return handshake;
}

Handshake Handshake::listening(std::string token, uint32_t threads) {
  Handshake handshake(std::move(token), true);
  handshake.threads_ = threads;
  return handshake;
}

Status Handshake::begin(wire::Link& link) {
  STOKER_ASSIGN(client_, make_nonce());
  wire::Header hello = header_of(MessageType::kHello);
  hello.d = static_cast<uint32_t>(role_);
  link.send(hello, copied(client_));
  return ok();
}

Status Handshake::check_header(const wire::Header& header) const {
  if (header.type != static_cast<uint8_t>(expected_)) return refused("a message that does not belong there");
  if (header.length != 32) return refused("a message of the wrong size");
  return ok();
}

Status Handshake::on_frame(wire::Link& link, const wire::Header& header) {
  ByteView payload = link.payload();
  ByteView token = as_bytes(token_);
  if (expected_ == MessageType::kHello) {
    std::copy(payload.begin(), payload.end(), client_.begin());
    if (header.d != 1 && header.d != 2) return refused("a role that this version does not know");
    role_ = static_cast<Role>(header.d);
    STOKER_ASSIGN(server_, make_nonce());
    link.send(header_of(MessageType::kChallenge), copied(server_));
    expected_ = MessageType::kProof;
    return ok();
  }
  if (expected_ == MessageType::kChallenge) {
    std::copy(payload.begin(), payload.end(), server_.begin());
    link.send(header_of(MessageType::kProof), copied(client_proof(token, server_, client_)));
    expected_ = MessageType::kWelcome;
    return ok();
  }
  if (expected_ == MessageType::kProof) {
    if (!equal_in_constant_time(payload, client_proof(token, server_, client_)))
      return refused("the peer has another token");
    wire::Header welcome = header_of(MessageType::kWelcome);
    welcome.d = threads_;
    link.send(welcome, copied(server_proof(token, client_, server_)));
  } else {
    if (!equal_in_constant_time(payload, server_proof(token, client_, server_)))
      return refused("the peer has another token");
  }
  through_ = true;
  return ok();
}

}  // namespace stoker::feed
