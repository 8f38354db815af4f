// SPDX-License-Identifier: Apache-2.0
// Membership: which workers there are, and which connections are to be told so or let go: what a dispatcher
// decides. Workers register again and again; who is silent is forgotten, worker or not; clients subscribe and
// are told at every change. Pure: events and times come in as arguments, actions go out as values.
//
// All of it is soft: it starts empty after a restart and is rebuilt by the next registrations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stoker::feed {

class Membership {
 public:
  using PeerId = uint64_t;  // a connection; never used twice
  struct Worker {
    std::string address;
    int64_t threads = 0;
    int64_t load = 0;  // requests it has open
    bool operator==(const Worker&) const = default;
  };
  struct Actions {
    std::vector<PeerId> tell;    // the view as it is now
    std::vector<PeerId> let_go;  // already forgotten here
  };
  static constexpr int64_t kTickNs = 500'000'000;  // how often tick() is called

  explicit Membership(int64_t now) : ticked_ns_(now) {}

  void connected(PeerId peer, int64_t now);
  void proven(PeerId peer, int64_t now);  // it knows the token
  void heard(PeerId peer, int64_t now);   // any message
  Actions registered(PeerId peer, Worker worker, int64_t now);
  Actions subscribed(PeerId peer, int64_t now);
  Actions gone(PeerId peer);
  Actions tick(int64_t now);

  uint64_t view() const { return view_; }  // counts changes
  std::vector<Worker> workers() const;     // by address
  std::vector<PeerId> subscribers() const;
  size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    bool proven = false;
    bool subscriber = false;
    int64_t since_ns = 0;
    int64_t heard_ns = 0;
    std::string address;  // of a worker
  };
  struct Member {
    Worker worker;
    PeerId said_by = 0;  // last
  };
  bool drop_member(const Peer& peer, PeerId id);
  Actions changed();

  std::map<PeerId, Peer> peers_;
  std::map<std::string, Member> members_;  // by address
  uint64_t view_ = 0;
  int64_t ticked_ns_;
};

}  // namespace stoker::feed
