// SPDX-License-Identifier: Apache-2.0
#include "agent/events.h"

#include <sys/eventfd.h>

namespace stoker::agent {

StopRequest::StopRequest() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { CHECK(fd_); }

void StopRequest::request(const Stop& stop) {
  stop_.with([&](auto& held) { held = stop; });
  eventfd_write(fd_.get(), 1);
}

std::optional<Stop> StopRequest::get() {
  return stop_.with([](auto& held) { return held; });
}

}  // namespace stoker::agent
