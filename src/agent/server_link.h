// SPDX-License-Identifier: Apache-2.0
// An agent's talk with its server over HTTP on a Unix socket: events go up in order until acknowledged,
// commands come down by long poll. A server that is away is tried again for as long as the instance runs; one
// that does not know this agent stops it.
// Shared: any thread may emit.
#pragma once

#include <memory>
#include <string>

#include "agent/events.h"

namespace stoker::agent {

class ServerLink : public EventSink {
 public:
  // `stop` must outlive the process: the poll for commands ends with it.
  ServerLink(std::string socket_path, std::string agent_id, StopRequest& stop);
  ~ServerLink() override;

  void emit(decltype(AgentEvent::what) what) override;
  // Waits until the server has acknowledged everything; kDeadline, with the events still unsaid in the
  // message.
  Status flush(double limit_s);

 private:
  struct State;
  std::shared_ptr<State> state_;  // with the two threads, which may be in the middle of a request at the end
};

}  // namespace stoker::agent
