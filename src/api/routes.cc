// SPDX-License-Identifier: Apache-2.0
#include "api/routes.h"

#include "api/agents.h"
#include "api/measured.h"

namespace stoker::api {

void add_routes(Router& router, NativeContext& context) {
  add_native_routes(router, context);
  add_measured_routes(router, context.loop, context.controller);
  add_agent_routes(router, context.loop, context.controller);
}

}  // namespace stoker::api
