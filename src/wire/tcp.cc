// SPDX-License-Identifier: Apache-2.0
#include "wire/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace stoker::wire {
namespace {

struct FreeInfo {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
Result<std::unique_ptr<addrinfo, FreeInfo>> look_up(const Address& address, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  int code = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                         std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0)
    return unavailable("looking up " + address.text() + ": " +
                       (code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code)));
  return std::unique_ptr<addrinfo, FreeInfo>(found);
}

void set_no_delay(int socket) {
  int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Address address_of(const sockaddr_storage& raw) {
  char host[INET6_ADDRSTRLEN] = "";
  if (raw.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(raw);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    return {host, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(raw);
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
  return {host, ntohs(v6.sin6_port)};
}

bool is_loopback(const std::string& host) { return host.rfind("127.", 0) == 0 || host == "::1"; }

bool is_veth_name(int socket, const char* name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  return ioctl(socket, SIOCETHTOOL, &request) == 0 && std::strcmp(info.driver, "veth") == 0;
}

// Whether what this machine sends from `host` stays on it; for the address of all interfaces, whether that
// holds for each.
bool stays_on_machine(int socket, const std::string& host) {
  if (is_loopback(host)) return true;
  bool any = host == "0.0.0.0" || host == "::";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false, every = true;
  for (ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
      continue;
    sockaddr_storage raw{};
    std::memcpy(&raw, one->ifa_addr,
                one->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    bool local = (one->ifa_flags & IFF_LOOPBACK) || is_veth_name(socket, one->ifa_name);
    every &= local;
    if (address_of(raw).host == host) found = local;
  }
  freeifaddrs(all);
  return any ? every : found;
}

// The address that packets to `peer` leave from, by asking the routing table through a socket that sends
// nothing.
std::string source_for(const addrinfo& peer) {
  UniqueFd probe(::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!probe || ::connect(probe.get(), peer.ai_addr, peer.ai_addrlen) != 0) return "";
  auto local = local_address(probe.get());
  return local.ok() ? local->host : "";
}

void choose_congestion_control(int socket, const std::string& local_host) {
  const char* wish = std::getenv("STOKER_CONGESTION");
  std::string name = wish ? wish : "";
  if (name == "system" || (name.empty() && !stays_on_machine(socket, local_host))) return;
  if (name.empty()) name = "reno";
  // A machine without it keeps its own: slower, never wrong.
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
}

}  // namespace

std::string Address::text() const {
  bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<Address> parse_address(const std::string& text) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos) return invalid("\"" + text + "\" is not HOST:PORT");
  Address address{text.substr(0, colon), 0};
  if (address.host.size() > 1 && address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  auto [end, problem] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), address.port);
  if (problem != std::errc{} || end != text.data() + text.size())
    return invalid("\"" + text + "\" is not HOST:PORT: the port is not a number from 0 to 65535");
  return address;
}

Result<UniqueFd> listen_tcp(const Address& address) {
  STOKER_ASSIGN(auto info, look_up(address, true));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("making a socket", errno);
  int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd.get(), info->ai_addr, info->ai_addrlen) != 0)
    return errno_error("taking " + address.text(), errno);
  STOKER_ASSIGN(Address bound, local_address(fd.get()));
  choose_congestion_control(fd.get(), bound.host);  // accepted sockets have it from the start
  if (::listen(fd.get(), 256) != 0) return errno_error("listening on " + address.text(), errno);
  return fd;
}

Result<UniqueFd> start_connecting_tcp(const Address& address) {
  STOKER_ASSIGN(auto info, look_up(address, false));
  UniqueFd fd(::socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("making a socket", errno);
  set_no_delay(fd.get());
  choose_congestion_control(fd.get(), source_for(*info));
  if (::connect(fd.get(), info->ai_addr, info->ai_addrlen) != 0 && errno != EINPROGRESS)
    return errno_error("connecting to " + address.text(), errno);
  return fd;
}

Result<UniqueFd> accept_tcp(int listener) {
  while (true) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd && errno == EAGAIN) return UniqueFd();
    if (!fd) return errno_error("accepting a connection", errno);
    set_no_delay(fd.get());
    return fd;
  }
}

Result<Address> local_address(int socket) {
  sockaddr_storage raw{};
  socklen_t size = sizeof raw;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&raw), &size) != 0)
    return errno_error("own address", errno);
  return address_of(raw);
}

std::string congestion_control(int socket) {
  char name[32] = "";
  socklen_t size = sizeof name;
  getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size);
  return std::string(name, strnlen(name, sizeof name));
}

Status set_nonblocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return errno_error("making a descriptor non-blocking", errno);
  return ok();
}

Result<SocketPair> make_socketpair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    return errno_error("making a socketpair", errno);
  SocketPair pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  STOKER_TRY(set_nonblocking(pair.ours.get()));
  return pair;
}

}  // namespace stoker::wire
