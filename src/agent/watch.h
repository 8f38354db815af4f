// SPDX-License-Identifier: Apache-2.0
// Watches a started instance until it has ended: samples what it uses, passes a stop on, finds the reason of
// the end.
#pragma once

#include "agent/instance.h"

namespace stoker::agent {

// Returns when no process of the instance is left.
decltype(AgentEvent::what) watch_instance(Instance& instance);

}  // namespace stoker::agent
