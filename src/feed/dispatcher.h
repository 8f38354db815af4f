// SPDX-License-Identifier: Apache-2.0
// Dispatcher: tells clients which workers there are. Workers register and repeat it every half second as a
// heartbeat; clients subscribe and are told at every change. All state is soft: it is rebuilt within a second
// after a restart, and nobody stops working meanwhile. It never touches samples. From what both tell of
// themselves it says how many workers are wanted. membership.h and sizing.h decide; this one talks.
//
// Confined to the thread in run(), apart from stop().
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "feed/handshake.h"
#include "feed/membership.h"
#include "feed/sizing.h"
#include "wire/acceptor.h"
#include "wire/link.h"
#include "wire/tcp.h"

namespace stoker::feed {

struct DispatcherOptions {
  std::string listen;  // HOST:PORT
  std::string token;
  std::string sizing_file;  // replaced whenever another number of workers is wanted; "": none
};

class Dispatcher {
 public:
  static Result<std::unique_ptr<Dispatcher>> open(DispatcherOptions options);
  ~Dispatcher();
  const std::string& address() const { return address_; }
  void run();   // until stop()
  void stop();  // any thread

 private:
  class Peer;
  explicit Dispatcher(DispatcherOptions options);
  Status start();
  void accept(UniqueFd socket);
  void apply(const Membership::Actions& actions);
  void tell_view(const std::vector<Membership::PeerId>& peers);
  void size(int64_t now);
  void write_sizing();
  void over(Membership::PeerId peer);
  void tick();
  std::vector<uint8_t> view_payload() const;

  DispatcherOptions options_;
  std::string address_;
  std::unique_ptr<wire::Loop> loop_;
  std::unique_ptr<wire::Acceptor> acceptor_;
  std::map<Membership::PeerId, std::shared_ptr<Peer>> peers_;  // shared: a peer ends itself in its own call
  Membership::PeerId next_peer_ = 1;
  Membership membership_;
  Sizing sizing_;
  std::set<std::string> sized_;  // workers that sizing_ knows
  std::set<std::string> ended_;  // of these, workers that said goodbye
  int64_t told_sizing_ns_ = 0;
};

}  // namespace stoker::feed
