// SPDX-License-Identifier: Apache-2.0
#include "agent/sizing_news.h"

namespace stoker::agent {
namespace {
constexpr size_t kMostGroups = 64;  // as many as a job has instances
constexpr int64_t kPause_ns = 1'000'000'000;
}  // namespace

std::vector<WantedSize> SizingNews::look(const std::string& text, const Assignment& assignment,
                                         int64_t now_ns) {
  if (text != text_ && !text.empty()) {
    text_ = text;
    auto json = Json::parse(text);
    if (json.ok() && json->as_array().size() <= kMostGroups) {
      for (const Json& one : json->as_array()) {
        const Group* group = assignment.find_group(one["group"].as_string());
        if (group && group->role == Role::kFeed) groups_[group->name].latest = wanted_size_from_json(one);
      }
    }
  }
  std::vector<WantedSize> news;
  for (auto& [name, told] : groups_) {
    if (told.latest.wanted == told.wanted) continue;
    if (told.wanted >= 0 && now_ns - told.at_ns < kPause_ns) continue;
    told.wanted = told.latest.wanted;
    told.at_ns = now_ns;
    news.push_back(told.latest);
  }
  return news;
}

}  // namespace stoker::agent
