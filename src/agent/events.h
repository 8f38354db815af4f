// SPDX-License-Identifier: Apache-2.0
// How the work of an agent meets whoever gave it: events go out, a stop may come in. Both may be used from
// any thread.
#pragma once

#include <optional>

#include "agent/protocol.h"
#include "base/files.h"
#include "base/guarded.h"

namespace stoker::agent {

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void emit(decltype(AgentEvent::what) what) = 0;
};

// A stop that was asked for. The descriptor becomes readable with the first request and stays so.
class StopRequest {
 public:
  StopRequest();
  void request(const Stop& stop);  // a second request replaces the first (a shorter grace, say)
  std::optional<Stop> get();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  Guarded<std::optional<Stop>> stop_;
};

}  // namespace stoker::agent
