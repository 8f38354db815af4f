// SPDX-License-Identifier: Apache-2.0
#include "cli/watch.h"

#include "cli/session.h"
#include "cli/text.h"

namespace stoker::cli {

Status next_change(http::Client& client, Json& job) {
  std::string target =
      job_target(job["name"].as_string(), "?after=" + std::to_string(job["version"].as_int()));
  STOKER_ASSIGN(job, client.call("GET", target, {}, std::chrono::seconds(60)));
  return ok();
}

Status watch_start(http::Client& client, Json& job, const std::function<void(const std::string&)>& say) {
  std::string shown;
  while (job["phase"].as_string() == "queued" || job["phase"].as_string() == "preparing") {
    std::string text = job["phase"].as_string() == "queued" ? queued_text(job) : slow_steps_text(job);
    if (!text.empty() && text != shown) say(text);
    if (!text.empty()) shown = std::move(text);
    STOKER_TRY(next_change(client, job));
  }
  for (const Json& notice : job["state"]["notices"].as_array()) say(notice.as_string());
  return ok();
}

}  // namespace stoker::cli
