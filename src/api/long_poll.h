// SPDX-License-Identifier: Apache-2.0
// Holding a request until there is something to say. Confined to the loop.
#pragma once

#include <chrono>
#include <functional>

#include "control/signal.h"
#include "http/server.h"

namespace stoker::api {

constexpr std::chrono::milliseconds kLongPoll{25'000};

// Calls `answer(false)` now and at every change until it returns true (it has answered); after the timeout
// `answer(true)`, which must answer with what there is. The signal outlives the loop's work.
void long_poll(http::Loop& loop, http::ExchangePtr exchange, control::Signal& changed,
               std::chrono::milliseconds timeout, std::function<bool(bool last)> answer);

}  // namespace stoker::api
