// SPDX-License-Identifier: Apache-2.0
#include "cli/notices.h"

#include <sys/eventfd.h>

#include <utility>

#include "cli/watch.h"

namespace stoker::cli {

Notices::Notices(const Session& session, Json job, Say say)
    : ended_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), told_(job["state"]["notices"].as_array().size()) {
  CHECK(ended_);
  thread_ = std::thread([this, socket = session.socket, job = std::move(job),
                         say = std::move(say)]() mutable { watch(socket, std::move(job), say); });
}

size_t Notices::end() {
  if (thread_.joinable()) {
    eventfd_write(ended_.get(), 1);
    thread_.join();
  }
  return told_;
}

// What goes wrong with the server is told by whoever waits for the job's end; one that is only slow (paused,
// say) is asked again.
void Notices::watch(const std::string& socket, Json job, const Say& say) {
  http::Client client(socket);
  client.set_wake(ended_.get(), [] { return false; });
  for (Status asked = ok(); asked.ok() || asked.error().code == Code::kDeadline;
       asked = next_change(client, job)) {
    tell_notices(job, told_, say);
    if (is_over(job)) return;
  }
}

}  // namespace stoker::cli
