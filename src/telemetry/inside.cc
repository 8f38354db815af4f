// SPDX-License-Identifier: Apache-2.0
#include "telemetry/inside.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/files.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace stoker::telemetry {

namespace {

Error denied(const char* why) { return {Code::kDenied, std::string("who asks cannot be told: ") + why, {}}; }

Error has_ended() {
  return denied("the process that connected has ended; ask over a connection of your own");
}

Result<UniqueFd> open_peer(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) != 0) {
    if (errno == ENOPROTOOPT) fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0 && (errno == ESRCH || errno == EINVAL))
      return has_ended();  // which of them depends on the kernel
    if (fd < 0) return errno_error("look at who asks", errno);
  }
  return UniqueFd(fd);
}

bool is_over(int pidfd) {
  pollfd ended{pidfd, POLLIN, 0};
  return poll(&ended, 1, 0) != 0;
}

// Its groups of version 1 are all "/" then. "PID (NAME) STATE PPID PGRP SESSION TTY TPGID FLAGS …"
bool is_exiting(const std::string& stat) {
  constexpr unsigned long kExiting = 0x4;  // PF_EXITING
  size_t at = stat.rfind(')');
  for (int field = 2; field < 9 && at != std::string::npos; field++) at = stat.find(' ', at + 1);
  return at == std::string::npos || (std::strtoul(stat.c_str() + at, nullptr, 10) & kExiting) != 0;
}

Result<std::string> instance_unless_exiting(pid_t pid) {
  STOKER_ASSIGN(std::string instance, instance_of(pid));
  auto stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  if (!stat.ok()) return std::move(stat).error();
  if (is_exiting(*stat)) return has_ended();
  return instance;
}

}  // namespace

// Lines of "ID:CONTROLLERS:PATH", of version 2 "0::PATH".
std::string instance_in(const std::string& cgroups) {
  const std::string parent = std::string(kCgroupParent) + "/";
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string::npos) continue;
    // In a container that sees the machine's groups all paths begin with its own.
    std::string_view path = std::string_view(line).substr(colon + 1);
    const size_t at = path.find(parent);
    if (at == path.npos) continue;
    path.remove_prefix(at + parent.size());
    return std::string(path.substr(0, path.find('/')));
  }
  return {};
}

Result<std::string> instance_of(pid_t pid) {
  STOKER_ASSIGN(std::string cgroups, read_text("/proc/" + std::to_string(pid) + "/cgroup"));
  return instance_in(cgroups);
}

// The pidfd, asked last, says that the number was its own all the time.
Result<std::string> instance_of_peer(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return errno_error("look at who asks", errno);
  if (who.pid <= 0) return denied("it is in another namespace of processes");
  STOKER_ASSIGN(const UniqueFd process, open_peer(socket, who.pid));
  auto instance = instance_unless_exiting(who.pid);
  if (is_over(process.get())) return has_ended();
  if (!instance.ok() && instance.error().code == Code::kNotFound) return denied("/proc does not show it");
  return instance;
}

}  // namespace stoker::telemetry
