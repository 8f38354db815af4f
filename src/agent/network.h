// SPDX-License-Identifier: Apache-2.0
// The job's network on this machine: which addresses are free, and the way out of it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace stoker::agent {

struct Subnet {
  uint32_t base = 0;  // network address, host byte order
  int prefix = 24;
  std::string address(uint32_t n) const;  // of the n-th: 1 is the bridge, hosts from 2 on
  std::string text() const;               // 10.77.3.0/24
};

// A private range for `hosts` instances that meets no route of `routes` (the text of /proc/net/route). `salt`
// spreads the choices of servers that do not know of each other. Pure.
Result<Subnet> choose_subnet(const std::string& routes, size_t hosts, uint64_t salt);
Result<Subnet> free_subnet(size_t hosts, uint64_t salt);  // on this machine, now

// Lets the instances behind `bridge` open connections to the outside, and keeps everybody else from opening
// connections to them. kUnsupported where neither nft nor iptables works.
Status open_egress(const std::string& bridge, const std::string& subnet);
Status close_egress(const std::string& bridge, const std::string& subnet);  // nothing there is fine

std::string netmask(int prefix);
Result<std::string> subnet_of(const std::string& address, int prefix);  // 10.77.3.9, 24 -> 10.77.3.0/24

}  // namespace stoker::agent
