// SPDX-License-Identifier: Apache-2.0
// Bridges and virtual Ethernet pairs by netlink: one system call pair each, where six runs of `ip` take 26
// ms. Confined.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/files.h"
#include "base/result.h"

namespace stoker::agent {

class Netlink {
 public:
  static Result<Netlink> open();

  // Makes the bridge with its address, up. true: made by this call; false: it was there.
  Result<bool> ensure_bridge(const std::string& name, const std::string& address, int prefix, int mtu);
  // A pair: `name` here, in the bridge and up; `peer` straight in the network namespace of `pid`.
  Status make_veth(const std::string& name, const std::string& bridge, const std::string& peer, pid_t pid,
                   int mtu);
  // true: removed by this call; false: it was not there.
  Result<bool> remove_link(const std::string& name);

 private:
  struct Request;
  explicit Netlink(UniqueFd fd) : fd_(std::move(fd)) {}
  int send(Request& request);  // errno of the kernel's answer, 0 for success
  UniqueFd fd_;
  uint32_t sequence_ = 0;
};

}  // namespace stoker::agent
