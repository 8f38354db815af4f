// SPDX-License-Identifier: Apache-2.0
// How distant workers come and go.
#include <algorithm>

#include "base/log.h"
#include "feed/client_core.h"

namespace stoker::feed {

void ClientCore::worker_ready(DistantWorker& worker, const Json& reply, uint32_t parallel) {
  if (auto taken = take_layout(reply); !taken.ok()) return fail_stream(fault_of(taken.error()));
  compare_cpu(worker, reply);
  worker.endpoint = join(&worker, false, parallel);
  step();
}

void ClientCore::worker_refused(DistantWorker& worker, const Fault& fault) {
  ++errors_["refused_plan"];
  problem(worker.address() + " refused the plan: " + fault.error.message);
  log_line(LogLevel::kWarn, "feed", problem_);
  // One that is told so by all it knows need not wait for a better one to come.
  if (!somebody_may_serve() && options_.dispatcher.empty()) fail_stream(fault);
}

// Told once by each, and to the training loop when nobody is left that could make its samples: of a
// dispatcher that takes the token other workers may still be heard.
void ClientCore::token_denied(const Error& error, bool by_dispatcher) {
  ++errors_["refused_token"];
  problem(error.message);
  denial_ = error.message;
  if (somebody_may_serve() || !(by_dispatcher || options_.dispatcher.empty()))
    return log_line(LogLevel::kWarn, "feed", error.message);
  fail_stream(fault_of(error));
}

bool ClientCore::somebody_may_serve() const {
  return !kids_.empty() || std::any_of(workers_.begin(), workers_.end(),
                                       [](const auto& entry) { return entry.second->may_serve(); });
}

void ClientCore::worker_down(DistantWorker& worker, const Error& error) {
  problem(error.message);
  endpoint_gone(std::exchange(worker.endpoint, 0), error.message);
  if (listed_.count(worker.address()) == 0)
    loop_->post([this, address = worker.address()] {  // not inside its own call
      auto found = workers_.find(address);
      if (found != workers_.end() && !found->second->up() && listed_.count(address) == 0)
        workers_.erase(found);
    });
  step();
}

void ClientCore::worker_drains(DistantWorker& worker) {
  assigner_.draining(worker.endpoint);
  step();
}

// A view adds. Who is missing from it is let go only when the connection ends too: the dispatcher may just
// have been restarted and not have heard from everybody.
void ClientCore::view_changed(const std::vector<std::string>& addresses) {
  listed_ = {addresses.begin(), addresses.end()};
  listed_.insert(options_.workers.begin(), options_.workers.end());  // those we were given stay
  std::erase_if(workers_,
                [&](const auto& entry) { return !entry.second->up() && listed_.count(entry.first) == 0; });
  for (const std::string& address : listed_) {
    auto [at, added] = workers_.try_emplace(address);
    if (!added) continue;
    at->second = std::make_unique<DistantWorker>(*this, *loop_, address, options_.token);
    at->second->start(starved_);
  }
}

void ClientCore::problem(const std::string& text) { problem_ = text; }

}  // namespace stoker::feed
