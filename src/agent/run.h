// SPDX-License-Identifier: Apache-2.0
// Runs one instance from its assignment to nothing left. Blocks; call it on the main thread (the sandbox dies
// with the thread that made it), as root.
#pragma once

#include <string>

#include "agent/events.h"
#include "agent/protocol.h"

namespace stoker::agent {

// `program` is the path of the stoker executable for the helpers inside. Every end is an event; `released` is
// the last.
void run_instance(const Assignment& assignment, EventSink& events, StopRequest& stop,
                  const std::string& program);

// Removes what an agent that was killed left of this assignment: groups, interface, bridge. Nothing there is
// fine.
Status clear_leftovers(const Assignment& assignment);

}  // namespace stoker::agent
