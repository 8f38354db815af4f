// SPDX-License-Identifier: Apache-2.0
// Connections, the side that dials them (as Dialer does), and the dispatcher at the end of some.
#include <algorithm>
#include <utility>

#include "feed/protocol.h"
#include "feed/simulation/rank.h"
#include "feed/simulation/world.h"

namespace stoker::feed::simulation {
namespace {
constexpr int64_t kFirstPauseNs = 50 * kMs;  // as in dialer.cc
constexpr int64_t kLongestPauseNs = kSecond;
}  // namespace

// ---- dialling

uint32_t World::dial(Place owner, Place target) {
  Dialer dialer;
  dialer.owner = owner;
  dialer.target = target;
  if (owner.kind == Kind::kWorker) dialer.process = process_at(owner.index);
  dialers_.push_back(dialer);
  auto index = static_cast<uint32_t>(dialers_.size() - 1);
  at(now_, What::kDial, index, 0);
  return index;
}

void World::stop_dialing(uint32_t index) {
  Dialer& dialer = dialers_[index];
  dialer.stopped = true;
  ++dialer.serial;
  if (dialer.connection != kNone) close(std::exchange(dialer.connection, kNone), true);
}

uint32_t World::process_at(uint32_t address) const {
  for (auto process = static_cast<uint32_t>(processes_.size()); process-- > 0;)
    if (processes_[process].address == address && processes_[process].rank == kNone) return process;
  return kNone;
}

bool World::is_cut(Place a, Place b) const {
  return std::any_of(cuts_.begin(), cuts_.end(),
                     [&](const Cut& cut) { return cut.active && cut.slow_ns == 0 && cut.concerns(a, b); });
}

void World::try_dial(uint32_t index) { reach(index, false); }

// How it goes, and a moment later whether it is still so.
void World::reach(uint32_t index, bool arrived) {
  Dialer& dialer = dialers_[index];
  if (dialer.stopped) return;
  bool is_there = membership_.has_value(), answers = true;
  int64_t trip_ns = kMs / 2;
  if (dialer.target.kind == Kind::kWorker) {
    const Process& process = processes_[process_at(dialer.target.index)];
    is_there = process.alive && !process.draining;
    answers = process.reachable && !process.paused;
    trip_ns = 2 * process.machine.latency_ns + random_.between(kMs, 30 * kMs);  // it opens the plan
  }
  if (is_cut(dialer.owner, dialer.target) || !answers)
    return at(now_ + kHandshakeNs, What::kNoAnswer, index, dialer.serial);
  if (!is_there) {
    if (dialer.target.kind == Kind::kDispatcher) hit(dispatcher_fault_);
    return redial(index, false);
  }
  if (!arrived) return at(now_ + trip_ns, What::kUp, index, dialer.serial);

  dialer.pause_ns = 0;
  auto made = static_cast<uint32_t>(connections_.size());
  Connection connection;
  connection.dialer = index;
  connection.made_ns = now_;
  connection.near = dialer.owner;
  connection.far = dialer.target;
  connection.process = dialer.target.kind == Kind::kWorker ? process_at(dialer.target.index) : dialer.process;
  connections_.push_back(std::move(connection));
  dialer.connection = made;
  if (dialer.target.kind == Kind::kWorker) {
    const Process& process = processes_[process_at(dialer.target.index)];
    return ranks_[dialer.owner.index]->up(index, made, dialer.target.index, process.machine.hands);
  }
  membership_->connected(made, now_);
  membership_->proven(made, now_);
  if (dialer.owner.kind == Kind::kWorker) return report(dialer.process);
  Message subscribe;
  subscribe.say = Say::kSubscribe;
  send(made, true, subscribe);
  at(now_ + kSecond, What::kPing, dialer.owner.index, made);
}

void World::dialed(uint32_t index, bool answered) { answered ? reach(index, true) : redial(index, false); }

void World::redial(uint32_t index, bool was_up) {
  Dialer& dialer = dialers_[index];
  if (dialer.stopped) return;
  dialer.connection = kNone;
  dialer.pause_ns = was_up ? kFirstPauseNs : std::clamp(2 * dialer.pause_ns, kFirstPauseNs, kLongestPauseNs);
  at(now_ + dialer.pause_ns, What::kDial, index, ++dialer.serial);
}

void World::lost_connection(uint32_t index) {
  const Connection connection = connections_[index];
  if (connection.dialer == kNone || dialers_[connection.dialer].stopped) return;
  redial(connection.dialer, true);
  if (connection.far.kind == Kind::kWorker) {
    ranks_[connection.near.index]->down(connection.dialer, index);
  } else {
    hit(dispatcher_fault_);
  }
}

// ---- what travels

int64_t World::extra_latency(const Connection& connection) {
  for (const Cut& cut : cuts_)
    if (cut.active && cut.slow_ns > 0 && cut.concerns(connection.near, connection.far)) {
      hit(cut.fault);
      return random_.between(cut.slow_ns / 2, cut.slow_ns);
    }
  return 0;
}

void World::transmit(uint32_t index, bool from_dialer, const Message& message) {
  Connection& connection = connections_[index];
  int64_t latency = connection.process != kNone ? processes_[connection.process].machine.latency_ns : kMs / 4;
  int64_t& last = connection.last_ns[from_dialer ? 0 : 1];
  last = std::max(last, now_ + latency + extra_latency(connection));
  uint32_t slot = static_cast<uint32_t>(travelling_.size());
  if (free_.empty()) {
    travelling_.push_back({message, index, from_dialer});
  } else {
    slot = free_.back();
    free_.pop_back();
    travelling_[slot] = {message, index, from_dialer};
  }
  at(last, What::kDeliver, slot);
}

void World::send(uint32_t index, bool from_dialer, Message message) {
  if (connections_[index].up[from_dialer ? 0 : 1]) transmit(index, from_dialer, message);
}

void World::close(uint32_t index, bool by_dialer) {
  Connection& connection = connections_[index];
  if (by_dialer) connection.ended_ns = now_;
  if (!std::exchange(connection.up[by_dialer ? 0 : 1], false)) return;
  connection.held[by_dialer ? 1 : 0].clear();
  Message closed;
  closed.say = Say::kClosed;
  transmit(index, by_dialer, closed);
}

void World::drop(uint32_t index) {
  close(index, true);
  lost_connection(index);
}

bool World::is_held(const Connection& connection, bool from_dialer, int* fault) const {
  for (const Cut& cut : cuts_)
    if (cut.active && cut.slow_ns == 0 && cut.concerns(connection.near, connection.far))
      return *fault = cut.fault, true;
  const Place& receiver = from_dialer ? connection.far : connection.near;
  if (receiver.kind == Kind::kRank && ranks_[receiver.index]->stopped_until_ns > now_)
    return *fault = ranks_[receiver.index]->stop_fault, true;
  if (receiver.kind != Kind::kWorker || !processes_[connection.process].paused) return false;
  *fault = processes_[connection.process].pause_fault;
  return true;
}

void World::deliver(uint32_t index, bool from_dialer, const Message& message) {
  Connection& connection = connections_[index];
  if (!connection.up[from_dialer ? 1 : 0]) return;
  int fault = -1;
  auto& held = connection.held[from_dialer ? 0 : 1];
  if (!held.empty() || is_held(connection, from_dialer, &fault)) {
    hit(fault);
    held.push_back(message);
    return;
  }
  receive(index, from_dialer, message);
}

void World::receive(uint32_t index, bool from_dialer, const Message& message) {
  Place to = from_dialer ? connections_[index].far : connections_[index].near;
  uint32_t process = connections_[index].process;
  if (message.say == Say::kClosed) {
    connections_[index].up[from_dialer ? 1 : 0] = false;
    if (!from_dialer) connections_[index].ended_ns = now_;
    if (!from_dialer) return lost_connection(index);
    if (to.kind == Kind::kWorker) return session_over(processes_[process], index);
    if (sizing_) sizing_->consumer_gone(index);
    if (membership_) dispatcher_does(membership_->gone(index));
    return;
  }
  if (to.kind == Kind::kWorker) return worker_hears(process, index, message);
  if (to.kind == Kind::kDispatcher) return dispatcher_hears(index, message);
  ranks_[to.index]->hears(index, message);
}

// A child is not pinged.
void World::block(uint32_t index) {
  if (connections_[index].up[0] && connections_[index].dialer != kNone)
    at(now_ + kSilenceNs + kPingEveryNs / 2, What::kSilence, index, ++connections_[index].serial);
}

void World::unblock(uint32_t index) {
  int fault = -1;
  for (bool from_dialer : {true, false}) {
    if (is_held(connections_[index], from_dialer, &fault)) {
      block(index);
      continue;
    }
    ++connections_[index].serial;
    std::deque<Message> held = std::move(connections_[index].held[from_dialer ? 0 : 1]);
    connections_[index].held[from_dialer ? 0 : 1].clear();
    for (const Message& message : held)
      if (connections_[index].up[from_dialer ? 1 : 0]) receive(index, from_dialer, message);
  }
}

void World::heal(uint32_t cut) {
  last_trouble_ns_ = now_;
  cuts_[cut].active = false;
  say("a link is well again");
  for (uint32_t index = 0; index < connections_.size(); ++index)
    if (cuts_[cut].concerns(connections_[index].near, connections_[index].far)) unblock(index);
}

void World::silence(uint32_t index, uint32_t serial) {
  const Connection& connection = connections_[index];
  if (connection.serial != serial || !connection.up[0]) return;
  if (connection.near.kind == Kind::kRank && ranks_[connection.near.index]->stopped_until_ns > now_)
    return block(index);
  say("a connection is given up: silent");
  drop(index);
}

// ---- the dispatcher

void World::dispatcher_does(const Membership::Actions& actions) {
  for (auto peer : actions.let_go) {
    if (sizing_) sizing_->consumer_gone(peer);
    close(static_cast<uint32_t>(peer), false);
  }
  if (actions.tell.empty()) return;
  Message view;
  view.say = Say::kView;
  view.addresses = listed();
  for (auto peer : actions.tell) send(static_cast<uint32_t>(peer), false, view);
}

void World::dispatcher_hears(uint32_t connection, const Message& message) {
  if (!membership_) return;
  tell_sizing(connection);
  if (message.say == Say::kRegister) {
    char letter = static_cast<char>('A' + connections_[connection].near.index);
    dispatcher_does(membership_->registered(connection, {std::string(1, letter), 1, 0}, now_));
  } else if (message.say == Say::kSubscribe) {
    dispatcher_does(membership_->subscribed(connection, now_));
  } else {
    membership_->heard(connection, now_);
  }
}

void World::dispatcher_tick(uint32_t life) {
  if (life != dispatcher_life_ || !membership_) return;
  dispatcher_does(membership_->tick(now_));
  resize();
  check_dispatcher();
  at(now_ + Membership::kTickNs, What::kTick, life);
}

uint64_t World::listed() const {
  uint64_t out = 0;
  for (const auto& worker : membership_->workers()) out |= uint64_t{1} << (worker.address[0] - 'A');
  return out;
}

void World::check_dispatcher() {
  constexpr int64_t kPatienceNs = 3 * kSecond;  // a slow link's worst and then some
  size_t here = 0;
  for (const Connection& one : connections_) {
    if (one.far.kind != Kind::kDispatcher || !one.up[1]) continue;
    // What a machine said before it was gone may be held up by a link that is cut, and is heard when that is
    // well.
    here += one.up[0] || now_ - std::max(one.ended_ns, last_trouble_ns_) < kSilenceNs + kPatienceNs;
    if (one.near.kind != Kind::kWorker || !one.up[0] || is_cut(one.near, one.far)) continue;
    bool is_settled = now_ - std::max(one.made_ns, last_trouble_ns_) > kPatienceNs;
    if (is_settled && !processes_[one.process].paused && (listed() >> one.near.index & 1) == 0)
      wrong("the dispatcher does not list a worker that reports to it");
  }
  if (membership_->peers() > here) wrong("the dispatcher keeps peers that are gone");
  for (uint32_t index = first_rank_; index < ranks_.size(); ++index) {
    uint32_t connection = dialers_[ranks_[index]->subscription].connection;
    bool knows = connection == kNone || ranks_[index]->stopped_until_ns > now_ ||
                 is_cut(connections_[connection].near, connections_[connection].far) ||
                 ranks_[index]->listed() == listed();
    auto since = misled_since_.try_emplace(index, now_).first;
    if (knows) since->second = now_;
    if (now_ - since->second > kPatienceNs)
      wrong("rank " + std::to_string(index) + " is not told which workers there are");
  }
}

}  // namespace stoker::feed::simulation
