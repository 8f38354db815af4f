// SPDX-License-Identifier: Apache-2.0
// All that a server answers, in one place: the server and the test of who may ask use the same.
#pragma once

#include "api/native.h"
#include "api/router.h"

namespace stoker::api {

// The context outlives the router.
void add_routes(Router& router, NativeContext& context);

}  // namespace stoker::api
