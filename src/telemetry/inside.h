// SPDX-License-Identifier: Apache-2.0
// Whether a process belongs to an instance: sockets of servers may be within a job's sight (an input that
// holds another home, /tmp), and a job must not command what runs it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace stoker::telemetry {

constexpr const char* kCgroupParent = "/stoker";  // of all instances, below each mount of control groups

// The name of the instance that the process is of, "" for none; kNotFound for a process that is gone. By its
// control group, which it cannot leave.
Result<std::string> instance_of(pid_t pid);

// The same, of who made the connection at the other end of this Unix socket. kDenied where that cannot be
// told: it has ended, whoever holds its descriptor now, or is in a namespace of processes that we do not see
// into. Other errors are our own (no descriptors left, say). To be asked at accept: kernels before 6.5 find
// the process by its number, which another may have after its end.
Result<std::string> instance_of_peer(int socket);

// The same, of the text of /proc/PID/cgroup.
std::string instance_in(const std::string& cgroups);

}  // namespace stoker::telemetry
