// SPDX-License-Identifier: Apache-2.0
// What a request for a job may be made of, before anything in it is understood: a field that is not known, or
// that is not of its kind, would otherwise be passed over without a word. Pure.
#pragma once

#include "base/json.h"
#include "base/result.h"

namespace stoker::control {

// Refuses unknown fields, fields of another kind (null is as good as left out) and texts with a zero byte,
// which no argument, variable or path can hold.
Status check_request_shape(const Json& request);

}  // namespace stoker::control
