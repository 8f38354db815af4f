// SPDX-License-Identifier: Apache-2.0
#include "feed/membership.h"

#include <algorithm>
#include <utility>

#include "feed/protocol.h"

namespace stoker::feed {

void Membership::connected(PeerId peer, int64_t now) {
  Peer one;
  one.since_ns = one.heard_ns = now;
  peers_.emplace(peer, std::move(one));
}

void Membership::proven(PeerId peer, int64_t now) {
  if (auto found = peers_.find(peer); found != peers_.end())
    found->second.proven = true, found->second.heard_ns = now;
}

void Membership::heard(PeerId peer, int64_t now) {
  if (auto found = peers_.find(peer); found != peers_.end()) found->second.heard_ns = now;
}

Membership::Actions Membership::registered(PeerId id, Worker worker, int64_t now) {
  auto found = peers_.find(id);
  if (found == peers_.end()) return {};
  Peer& peer = found->second;
  peer.heard_ns = now;
  bool is_other = peer.address != worker.address && drop_member(peer, id);
  peer.address = worker.address;
  auto [at, is_new] = members_.try_emplace(worker.address);
  at->second = {std::move(worker), id};
  return is_new || is_other ? changed() : Actions{};
}

Membership::Actions Membership::subscribed(PeerId peer, int64_t now) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) return {};
  found->second.heard_ns = now;
  if (std::exchange(found->second.subscriber, true)) return {};
  return {{peer}, {}};
}

// A worker that was cut off comes back on a new connection before its old one ends.
bool Membership::drop_member(const Peer& peer, PeerId id) {
  auto member = members_.find(peer.address);
  if (peer.address.empty() || member == members_.end() || member->second.said_by != id) return false;
  members_.erase(member);
  return true;
}

Membership::Actions Membership::gone(PeerId id) {
  auto found = peers_.find(id);
  if (found == peers_.end()) return {};
  Peer peer = std::move(found->second);
  peers_.erase(found);
  return drop_member(peer, id) ? changed() : Actions{};
}

Membership::Actions Membership::tick(int64_t now) {
  // While we were not running ourselves, nobody could be heard.
  int64_t deaf = std::max<int64_t>(0, now - ticked_ns_ - 2 * kTickNs);
  ticked_ns_ = now;
  Actions out;
  bool has_changed = false;
  for (auto at = peers_.begin(); at != peers_.end();) {
    auto& [id, peer] = *at;
    peer.heard_ns = std::min(now, peer.heard_ns + deaf);
    peer.since_ns = std::min(now, peer.since_ns + deaf);
    bool is_late = !peer.proven && now - peer.since_ns > kHandshakeNs;
    if (!is_late && now - peer.heard_ns <= kSilenceNs) {
      ++at;
      continue;
    }
    out.let_go.push_back(id);
    has_changed |= drop_member(peer, id);
    at = peers_.erase(at);
  }
  if (has_changed) out.tell = changed().tell;
  return out;
}

Membership::Actions Membership::changed() {
  ++view_;
  return {subscribers(), {}};
}

std::vector<Membership::PeerId> Membership::subscribers() const {
  std::vector<PeerId> out;
  for (const auto& [id, peer] : peers_)
    if (peer.subscriber) out.push_back(id);
  return out;
}

std::vector<Membership::Worker> Membership::workers() const {
  std::vector<Worker> out;
  out.reserve(members_.size());
  for (const auto& [address, member] : members_) out.push_back(member.worker);
  return out;
}

}  // namespace stoker::feed
