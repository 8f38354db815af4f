// SPDX-License-Identifier: Apache-2.0
#include "agent/netlink.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stoker::agent {

// One message, built in place. Attributes nest by begin/end.
struct Netlink::Request {
  alignas(8) char bytes[1024] = {};
  size_t size = NLMSG_HDRLEN;

  template <typename Body>
  Request(uint16_t type, uint16_t flags, const Body& body) {
    header()->nlmsg_type = type;
    header()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    append(&body, sizeof body);
  }
  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(bytes); }
  void append(const void* at, size_t count) {
    CHECK(size + NLMSG_ALIGN(count) <= sizeof bytes);
    if (count > 0) std::memcpy(bytes + size, at, count);
    size += NLMSG_ALIGN(count);
  }
  void attribute(uint16_t type, const void* at, size_t count) {
    rtattr head{static_cast<uint16_t>(RTA_LENGTH(count)), type};
    append(&head, sizeof head);
    append(at, count);
  }
  void text(uint16_t type, const std::string& value) { attribute(type, value.c_str(), value.size() + 1); }
  void number(uint16_t type, uint32_t value) { attribute(type, &value, sizeof value); }
  size_t begin(uint16_t type) {
    size_t at = size;
    attribute(type, nullptr, 0);
    return at;
  }
  void end(size_t at) { reinterpret_cast<rtattr*>(bytes + at)->rta_len = static_cast<uint16_t>(size - at); }
};

Result<Netlink> Netlink::open() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return errno_error("open netlink", errno);
  timeval limit{5, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return Netlink(std::move(fd));
}

int Netlink::send(Request& request) {
  request.header()->nlmsg_len = static_cast<uint32_t>(request.size);
  request.header()->nlmsg_seq = ++sequence_;
  if (::send(fd_.get(), request.bytes, request.size, 0) < 0) return errno;
  alignas(8) char answer[4096];
  for (;;) {
    ssize_t count = recv(fd_.get(), answer, sizeof answer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    auto* header = reinterpret_cast<nlmsghdr*>(answer);
    if (!NLMSG_OK(header, static_cast<size_t>(count)) || header->nlmsg_seq != sequence_) continue;
    if (header->nlmsg_type != NLMSG_ERROR) return EPROTO;
    return -reinterpret_cast<nlmsgerr*>(NLMSG_DATA(header))->error;
  }
}

Result<bool> Netlink::ensure_bridge(const std::string& name, const std::string& address, int prefix,
                                    int mtu) {
  ifinfomsg link{};
  link.ifi_flags = link.ifi_change = IFF_UP;
  Request make(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, link);
  make.text(IFLA_IFNAME, name);
  make.number(IFLA_MTU, static_cast<uint32_t>(mtu));
  size_t info = make.begin(IFLA_LINKINFO);
  make.attribute(IFLA_INFO_KIND, "bridge", 6);
  make.end(info);
  int failed = send(make);
  if (failed && failed != EEXIST) return errno_error("make bridge " + name, failed);
  const bool made = failed == 0;

  ifaddrmsg body{};
  body.ifa_family = AF_INET;
  body.ifa_prefixlen = static_cast<uint8_t>(prefix);
  body.ifa_index = if_nametoindex(name.c_str());
  in_addr bytes{};
  if (inet_pton(AF_INET, address.c_str(), &bytes) != 1)
    return invalid("'" + address + "' is not an IPv4 address");
  Request give(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body);
  give.attribute(IFA_LOCAL, &bytes, sizeof bytes);
  give.attribute(IFA_ADDRESS, &bytes, sizeof bytes);
  failed = send(give);
  if (failed && failed != EEXIST) return errno_error("give " + name + " the address " + address, failed);
  return made;
}

Status Netlink::make_veth(const std::string& name, const std::string& bridge, const std::string& peer,
                          pid_t pid, int mtu) {
  unsigned master = if_nametoindex(bridge.c_str());
  if (master == 0) return Error{Code::kNotFound, "bridge " + bridge + " is gone", {}};
  ifinfomsg link{};
  link.ifi_flags = link.ifi_change = IFF_UP;
  Request make(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, link);
  make.text(IFLA_IFNAME, name);
  make.number(IFLA_MTU, static_cast<uint32_t>(mtu));
  make.number(IFLA_MASTER, master);
  size_t info = make.begin(IFLA_LINKINFO);
  make.attribute(IFLA_INFO_KIND, "veth", 4);
  size_t data = make.begin(IFLA_INFO_DATA);
  size_t other = make.begin(VETH_INFO_PEER);
  ifinfomsg inside{};
  make.append(&inside, sizeof inside);
  make.text(IFLA_IFNAME, peer);
  make.number(IFLA_MTU, static_cast<uint32_t>(mtu));
  make.number(IFLA_NET_NS_PID, static_cast<uint32_t>(pid));
  make.end(other);
  make.end(data);
  make.end(info);
  if (int failed = send(make)) return errno_error("make interface " + name + " in bridge " + bridge, failed);
  return ok();
}

Result<bool> Netlink::remove_link(const std::string& name) {
  Request remove(RTM_DELLINK, 0, ifinfomsg{});
  remove.text(IFLA_IFNAME, name);
  int failed = send(remove);
  if (failed == ENODEV || failed == EINVAL) return false;
  if (failed) return errno_error("remove interface " + name, failed);
  return true;
}

}  // namespace stoker::agent
