// SPDX-License-Identifier: Apache-2.0
// The agents' side of the server: commands by long poll, events acknowledged by number (docs/decisions/
// agent-long-poll.md says why not a WebSocket).
#pragma once

#include "api/router.h"
#include "control/controller.h"

namespace stoker::api {

// GET  /internal/v1/agents/{agent}/commands?after=N  -> {"commands":[…]}, empty after 25 s
// POST /internal/v1/agents/{agent}/events {"events":[…]}  -> {"acknowledged":N}
void add_agent_routes(Router& router, http::Loop& loop, control::Controller& controller);

}  // namespace stoker::api
