// SPDX-License-Identifier: Apache-2.0
// The network as seen from inside: lo up, eth0 with its address, a default route. System calls only (see
// shim.h).
#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/sandbox/shim.h"

namespace stoker::agent {
namespace {

bool set_address(sockaddr* at, const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (text && inet_pton(AF_INET, text, &address.sin_addr) != 1) return false;
  std::memcpy(at, &address, sizeof address);
  return true;
}

bool raise(int fd, const char* name) {
  ifreq request{};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

bool configure(int fd, const SandboxPlan& plan) {
  if (!raise(fd, "lo")) return false;
  if (plan.address.empty()) return true;
  ifreq request{};
  strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  if (!set_address(&request.ifr_addr, plan.address.c_str()) || ioctl(fd, SIOCSIFADDR, &request) != 0)
    return false;
  if (!set_address(&request.ifr_netmask, plan.netmask.c_str()) || ioctl(fd, SIOCSIFNETMASK, &request) != 0)
    return false;
  if (!raise(fd, "eth0")) return false;
  if (plan.gateway.empty()) return true;
  rtentry route{};
  if (!set_address(&route.rt_dst, nullptr) || !set_address(&route.rt_genmask, nullptr)) return false;
  if (!set_address(&route.rt_gateway, plan.gateway.c_str())) return false;
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  return ioctl(fd, SIOCADDRT, &route) == 0;
}

}  // namespace

bool set_up_network(const SandboxPlan& plan, const char** where) {
  *where = "the network inside";
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  bool good = configure(fd, plan);
  int failed = errno;
  close(fd);
  errno = failed;
  return good;
}

}  // namespace stoker::agent
