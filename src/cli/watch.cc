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

void tell_notices(const Json& job, size_t& told, const std::function<void(const std::string&)>& say) {
  const Json::Array& notices = job["state"]["notices"].as_array();
  for (; told < notices.size(); ++told) say(notices[told].as_string());
}

Status watch_start(http::Client& client, Json& job, const std::function<void(const std::string&)>& say) {
  std::string shown;
  size_t told = 0;
  while (job["phase"].as_string() == "queued" || job["phase"].as_string() == "preparing") {
    std::string text = job["phase"].as_string() == "queued" ? queued_text(job) : slow_steps_text(job);
    if (!text.empty() && text != shown) say(text);
    if (!text.empty()) shown = std::move(text);
    tell_notices(job, told, say);
    STOKER_TRY(next_change(client, job));
  }
  tell_notices(job, told, say);
  return ok();
}

}  // namespace stoker::cli
