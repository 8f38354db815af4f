// SPDX-License-Identifier: Apache-2.0
#include "control/group_spec.h"

#include <algorithm>
#include <charconv>

namespace stoker::control {

namespace {

Error bad(std::string_view text, const std::string& what) {
  return invalid("group '" + std::string(text) + "': " + what +
                 "; a group is NAME=COUNTxTYPE[:ROLE[@GROUP,…]], for example data=2xml.c5.9xlarge:feed, or "
                 "data=1..4xml.c5.9xlarge:feed, which grows and shrinks");
}

bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > 64 || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

const GroupSpec* find(const std::vector<GroupSpec>& groups, const std::string& name) {
  for (const GroupSpec& group : groups)
    if (group.name == name) return &group;
  return nullptr;
}

}  // namespace

Result<GroupSpec> parse_group(std::string_view text) {
  GroupSpec group;
  size_t equals = text.find('=');
  if (equals == std::string_view::npos) return bad(text, "there is no '=' after the name");
  group.name = std::string(text.substr(0, equals));
  if (!valid_name(group.name))
    return bad(text, "the name '" + group.name + "' must be 1 to 64 letters, digits, '-' or '_'");

  std::string_view rest = text.substr(equals + 1);
  auto [after_count, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), group.count);
  if (ec == std::errc::invalid_argument) return bad(text, "there is no count before the type");
  if (ec != std::errc{} || group.count < 1 || group.count > kMaxInstances)
    return bad(text, "the count must be 1 to " + std::to_string(kMaxInstances));
  rest.remove_prefix(static_cast<size_t>(after_count - rest.data()));
  if (rest.starts_with("..")) {
    rest.remove_prefix(2);
    auto [after_most, wrong] = std::from_chars(rest.data(), rest.data() + rest.size(), group.most);
    if (wrong != std::errc{} || group.most < group.count || group.most > kMaxInstances)
      return bad(text, "after '" + std::to_string(group.count) +
                           "..' comes the most instances that it may have, " + std::to_string(group.count) +
                           " to " + std::to_string(kMaxInstances));
    rest.remove_prefix(static_cast<size_t>(after_most - rest.data()));
    if (group.most == group.count) group.most = 0;
  }
  if (rest.empty() || rest.front() != 'x') return bad(text, "there is no 'x' between count and type");
  rest.remove_prefix(1);

  size_t colon = rest.find(':');
  group.type = std::string(rest.substr(0, colon));
  if (group.type.empty()) return bad(text, "there is no instance type");
  if (colon == std::string_view::npos) return group;

  std::string_view role = rest.substr(colon + 1);
  size_t at = role.find('@');
  std::string role_text(role.substr(0, at));
  if (role_text == "feed") {
    group.role = agent::Role::kFeed;
  } else if (role_text == "aux") {
    group.role = agent::Role::kAux;
  } else {
    return bad(text, "the role '" + role_text + "' is not known: feed and aux are");
  }
  if (at == std::string_view::npos) return group;
  std::string_view served = role.substr(at + 1);
  while (true) {
    size_t comma = served.find(',');
    std::string name(served.substr(0, comma));
    if (!valid_name(name)) return bad(text, "after '@' come the names of the groups it serves");
    if (std::find(group.serves.begin(), group.serves.end(), name) == group.serves.end())
      group.serves.push_back(std::move(name));
    if (comma == std::string_view::npos) return group;
    served.remove_prefix(comma + 1);
  }
}

// What a dispatcher can size: one group of loaders' workers for one group that trains.
static Status check_elastic(const std::vector<GroupSpec>& groups, const GroupSpec& group) {
  const std::string what = "group '" + group.name + "' is to have " + std::to_string(group.count) + ".." +
                           std::to_string(group.most) + " instances, ";
  const std::string fix = "; give it a plain count";
  if (group.role != agent::Role::kFeed)
    return invalid(
        what + "and only a feed group can grow and shrink while a job runs: others have their ranks" + fix);
  if (group.serves.size() != 1)
    return invalid(what + "and serves " + std::to_string(group.serves.size()) +
                   " groups: only one that serves a single group can grow and shrink" + fix +
                   ", or name the group after '@'");
  for (const GroupSpec& other : groups)
    if (&other != &group && other.elastic() && other.serves == group.serves)
      return invalid(what + "and so is '" + other.name +
                     "', which serves the same group: one of them can be" + fix);
  return ok();
}

Status check_groups(std::vector<GroupSpec>& groups) {
  int64_t total = 0;
  std::vector<std::string> mains;
  for (size_t i = 0; i < groups.size(); ++i) {
    total += std::max(groups[i].count, groups[i].most);
    for (size_t j = 0; j < i; ++j)
      if (groups[i].name == groups[j].name)
        return invalid("two groups are named '" + groups[i].name + "'; give each its own name");
    if (groups[i].role == agent::Role::kNone) mains.push_back(groups[i].name);
  }
  if (mains.empty())
    return invalid(
        "every group has a role, so none decides when the job ends; give the training group no role");
  if (total > kMaxInstances)
    return invalid(std::to_string(total) + " instances in all; one machine takes at most " +
                   std::to_string(kMaxInstances));
  for (GroupSpec& group : groups) {
    if (group.role == agent::Role::kNone) continue;
    if (group.serves.empty()) group.serves = mains;
    for (const std::string& name : group.serves) {
      const GroupSpec* served = find(groups, name);
      if (!served)
        return invalid("group '" + group.name + "' serves '" + name + "', which is no group of this job");
      if (served->role != agent::Role::kNone)
        return invalid("group '" + group.name + "' serves '" + name + "', which is itself a helper");
    }
  }
  for (const GroupSpec& group : groups)
    if (group.elastic()) STOKER_TRY(check_elastic(groups, group));
  return ok();
}

}  // namespace stoker::control
