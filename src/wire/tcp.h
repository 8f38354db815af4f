// SPDX-License-Identifier: Apache-2.0
// TCP sockets for links: non-blocking, close-on-exec, no delay. Free functions; any thread.
#pragma once

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace stoker::wire {

struct Address {
  std::string host;
  uint16_t port = 0;
  std::string text() const;
  bool operator==(const Address&) const = default;
};
Result<Address> parse_address(const std::string& text);  // HOST:PORT or [V6]:PORT

// Names are looked up first (files and resolver of the machine), which may block.
Result<UniqueFd> listen_tcp(const Address& address);
Result<UniqueFd> start_connecting_tcp(
    const Address& address);                // not through yet; becomes writable when it is
Result<UniqueFd> accept_tcp(int listener);  // holds none when nobody waits
Result<Address> local_address(int socket);

// Congestion control is chosen before a socket connects or listens: BBR, the default of some machines, leaves
// its pacing switched on in a socket that changes over later. Measured: pacing costs a third of all CPU time
// of loopback traffic and half its speed, and there is nothing to pace there. So Reno, which needs no
// privilege, where the path cannot leave the machine (loopback, or out by a veth), and the machine's own
// choice elsewhere. STOKER_CONGESTION=NAME sets it for all, STOKER_CONGESTION=system leaves all alone.
std::string congestion_control(int socket);

// Two ends of a local stream; both close-on-exec, the first non-blocking.
struct SocketPair {
  UniqueFd ours, theirs;
};
Result<SocketPair> make_socketpair();
Status set_nonblocking(int fd);

}  // namespace stoker::wire
