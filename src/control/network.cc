// SPDX-License-Identifier: Apache-2.0
#include "control/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>

namespace stoker::control {

namespace {

struct Range {
  uint32_t address, mask;
};

std::vector<Range> in_use() {
  std::vector<Range> ranges;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return ranges;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || !at->ifa_netmask) continue;
    ranges.push_back({ntohl(reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr.s_addr),
                      ntohl(reinterpret_cast<const sockaddr_in*>(at->ifa_netmask)->sin_addr.s_addr)});
  }
  ::freeifaddrs(list);
  return ranges;
}

}  // namespace

std::string pick_subnet(uint64_t random, const std::vector<std::string>& taken) {
  std::vector<Range> ranges = in_use();
  constexpr uint32_t kNetworks = 64 * 256;
  std::string text;
  for (uint32_t i = 0; i < kNetworks; ++i) {
    uint32_t index = static_cast<uint32_t>((random + i) % kNetworks);
    uint32_t network = (10u << 24) | ((192 + index / 256) << 16) | ((index % 256) << 8);
    text = "10." + std::to_string(192 + index / 256) + "." + std::to_string(index % 256) + ".";
    bool used = std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
      uint32_t mask = range.mask & 0xffffff00u;  // overlap: equal under the wider of the two masks
      return (range.address & mask) == (network & mask);
    });
    if (!used && std::find(taken.begin(), taken.end(), text) == taken.end()) return text;
  }
  return text;
}

}  // namespace stoker::control
