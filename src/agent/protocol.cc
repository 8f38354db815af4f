// SPDX-License-Identifier: Apache-2.0
#include "agent/protocol.h"

#include <algorithm>

#include "base/text.h"

namespace stoker::agent {
namespace {

constexpr size_t kMaxHosts = 490;  // what AWS's preloaded gethostname parses (1024 JSON tokens)
constexpr size_t kMaxText = 4096, kMaxSizingReason = 512;
constexpr int64_t kMaxWanted = 100'000;

Json strings_to_json(const std::vector<std::string>& values) {
  Json::Array array;
  for (const auto& value : values) array.emplace_back(value);
  return array;
}

Json map_to_json(const std::map<std::string, std::string>& values) {
  Json::Object object;
  for (const auto& [key, value] : values) object[key] = value;
  return object;
}

Result<std::vector<std::string>> strings_from(const Json& json, const char* key) {
  std::vector<std::string> values;
  if (json.has(key) && !json[key].is_array()) return invalid(std::string(key) + ": wanted a list of strings");
  for (const auto& value : json[key].as_array()) {
    if (!value.is_string()) return invalid(std::string(key) + ": wanted a list of strings");
    values.push_back(value.as_string());
  }
  return values;
}

Result<std::map<std::string, std::string>> map_from(const Json& json, const char* key) {
  std::map<std::string, std::string> values;
  if (json.has(key) && !json[key].is_object())
    return invalid(std::string(key) + ": wanted an object of strings");
  for (const auto& [name, value] : json[key].as_object()) {
    if (!value.is_string()) return invalid(std::string(key) + "." + name + ": wanted a string");
    values[name] = value.as_string();
  }
  return values;
}

// Names become path components, interface names and cgroup names.
Status check_name(const char* field, const std::string& name) {
  bool good = !name.empty() && name.size() <= 128 && name[0] != '.' && name[0] != '-';
  for (char c : name)
    good = good && (isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.');
  if (!good) return invalid(std::string(field) + ": '" + name + "' is not a name (letters, digits, - _ .)");
  return ok();
}

Status check_absolute(const char* field, const std::string& path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos ||
      path.find("/../") != std::string::npos)
    return invalid(std::string(field) + ": '" + path + "' is not an absolute path");
  return ok();
}

Status check_range(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high))
    return invalid(std::string(field) + ": " + Json(value).dump() + " is not between " + Json(low).dump() +
                   " and " + Json(high).dump());
  return ok();
}

Result<Role> role_from(const Json& json) {
  const std::string& text = json["role"].as_string();
  if (text.empty()) return Role::kNone;
  if (text == "feed") return Role::kFeed;
  if (text == "aux") return Role::kAux;
  return invalid("role: '" + text + "' is not feed, aux or empty");
}

Json group_to_json(const Group& group) {
  Json json;
  json.set("name", group.name).set("instance_type", group.instance_type).set("role", role_name(group.role));
  json.set("hosts", strings_to_json(group.hosts)).set("serves", strings_to_json(group.serves));
  return json;
}

Result<Group> group_from_json(const Json& json) {
  Group group;
  STOKER_ASSIGN(group.name, json.need_string("name"));
  STOKER_TRY(check_name("groups.name", group.name));
  STOKER_ASSIGN(group.instance_type, json.need_string("instance_type"));
  STOKER_ASSIGN(group.role, role_from(json));
  STOKER_ASSIGN(group.hosts, strings_from(json, "hosts"));
  STOKER_ASSIGN(group.serves, strings_from(json, "serves"));
  return group;
}

Json network_to_json(const Network& network) {
  Json json;
  json.set("bridge", network.bridge).set("address", network.address).set("gateway", network.gateway);
  json.set("prefix", network.prefix).set("mtu", network.mtu).set("isolated", network.isolated);
  return json;
}

Result<Network> network_from_json(const Json& json) {
  Network network;
  STOKER_ASSIGN(network.bridge, json.need_string("bridge"));
  STOKER_TRY(check_name("network.bridge", network.bridge));
  if (network.bridge.size() > 15) return invalid("network.bridge: longer than 15 characters");
  STOKER_ASSIGN(network.address, json.need_string("address"));
  STOKER_ASSIGN(network.gateway, json.need_string("gateway"));
  network.prefix = static_cast<int>(json["prefix"].as_int(24));
  network.mtu = static_cast<int>(json["mtu"].as_int(1500));
  STOKER_TRY(check_range("network.prefix", network.prefix, 8, 30));
  STOKER_TRY(check_range("network.mtu", network.mtu, 576, 65535));
  network.isolated = json["isolated"].as_bool();
  return network;
}

Result<std::vector<Channel>> channels_from(const Json& json) {
  std::vector<Channel> channels;
  for (const auto& item : json["channels"].as_array()) {
    Channel channel;
    STOKER_ASSIGN(channel.name, item.need_string("name"));
    STOKER_TRY(check_name("channels.name", channel.name));
    STOKER_ASSIGN(channel.path, item.need_string("path"));
    STOKER_TRY(check_absolute("channels.path", channel.path));
    channel.read_only = item["read_only"].as_bool(true);
    channels.push_back(std::move(channel));
  }
  return channels;
}

Status check_consistent(const Assignment& a) {
  if (a.addresses.size() > kMaxHosts) return invalid("addresses: more than 490 hosts");
  if (!a.addresses.contains(a.host)) return invalid("addresses: " + a.host + " itself is missing");
  const Group* own = a.find_group(a.group);
  if (!own) return invalid("groups: the instance's own group '" + a.group + "' is missing");
  if (std::find(own->hosts.begin(), own->hosts.end(), a.host) == own->hosts.end())
    return invalid("groups: " + a.host + " is not a host of group '" + a.group + "'");
  if (a.entry.script.empty() && a.entry.command.empty() && a.role != Role::kFeed)
    return invalid("entry: neither a script nor a command");
  if (a.entry.script.empty() && a.entry.command.empty() && a.feed.dispatchers.empty())
    return invalid("feed.dispatchers: a feed group without one would feed nobody");
  if (a.entry.script.starts_with("/") || a.entry.script.starts_with("../") ||
      a.entry.script.find("/../") != std::string::npos)
    return invalid("entry.script: '" + a.entry.script + "' leaves the code directory");
  if (a.requirements_file.starts_with("/") || a.requirements_file.find("..") != std::string::npos)
    return invalid("requirements_file: '" + a.requirements_file + "' leaves the code directory");
  for (const auto& [name, value] : a.environment)
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos ||
        value.find('\0') != std::string::npos)
      return invalid("environment: '" + name + "' cannot be a variable");
  return ok();
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::kNone:
      return "";
    case Role::kFeed:
      return "feed";
    case Role::kAux:
      return "aux";
  }
  return "";
}

const Group* Assignment::find_group(const std::string& wanted) const {
  for (const auto& candidate : groups)
    if (candidate.name == wanted) return &candidate;
  return nullptr;
}

bool Assignment::is_served() const { return role == Role::kNone && !feed.dispatchers.empty(); }

Json Assignment::to_json() const {
  Json json;
  json.set("job", job).set("attempt", attempt).set("host", host).set("group", group).set("rank", rank);
  json.set("role", role_name(role))
      .set("instance_type", instance_type)
      .set("vcpus", vcpus)
      .set("cores", cores);
  json.set("memory_bytes", memory_bytes).set("gpus", gpus).set("addresses", map_to_json(addresses));
  Json::Array group_list, channel_list;
  for (const auto& item : groups) group_list.push_back(group_to_json(item));
  for (const auto& item : channels) {
    Json one;
    one.set("name", item.name).set("path", item.path).set("read_only", item.read_only);
    channel_list.push_back(std::move(one));
  }
  json.set("groups", group_list).set("channels", channel_list).set("network", network_to_json(network));
  json.set("job_dir", job_dir).set("stoker_home", stoker_home).set("code_dir", code_dir);
  Json entry_json;
  entry_json.set("script", entry.script).set("command", strings_to_json(entry.command));
  entry_json.set("arguments", strings_to_json(entry.arguments));
  json.set("entry", entry_json).set("hyperparameters", map_to_json(hyperparameters));
  json.set("environment", map_to_json(environment)).set("python", python);
  json.set("requirements_file", requirements_file).set("readable", strings_to_json(readable));
  Json feed_json;
  feed_json.set("dispatchers", strings_to_json(feed.dispatchers)).set("token_file", feed.token_file);
  feed_json.set("sized", feed.sized).set("joins", feed.joins);
  json.set("feed", feed_json).set("uid", uid).set("gid", gid).set("grace_s", grace_s);
  return json;
}

Result<Assignment> Assignment::from_json(const Json& json) {
  Assignment a;
  STOKER_ASSIGN(a.job, json.need_string("job"));
  STOKER_TRY(check_name("job", a.job));
  a.attempt = json["attempt"].as_int(1);
  STOKER_ASSIGN(a.host, json.need_string("host"));
  STOKER_TRY(check_name("host", a.host));
  STOKER_ASSIGN(a.group, json.need_string("group"));
  a.rank = json["rank"].as_int();
  STOKER_ASSIGN(a.role, role_from(json));
  STOKER_ASSIGN(a.instance_type, json.need_string("instance_type"));
  STOKER_ASSIGN(a.vcpus, json.need_int("vcpus"));
  STOKER_TRY(check_range("vcpus", static_cast<double>(a.vcpus), 1, 1e5));
  STOKER_ASSIGN(a.cores, json.need_number("cores"));
  STOKER_TRY(check_range("cores", a.cores, 0.001, 1e5));
  STOKER_ASSIGN(a.memory_bytes, json.need_int("memory_bytes"));
  STOKER_TRY(check_range("memory_bytes", static_cast<double>(a.memory_bytes), 1 << 20, 1e18));
  a.gpus = json["gpus"].as_int();
  STOKER_ASSIGN(a.addresses, map_from(json, "addresses"));
  for (const auto& item : json["groups"].as_array()) {
    STOKER_ASSIGN(Group parsed, group_from_json(item));
    a.groups.push_back(std::move(parsed));
  }
  STOKER_ASSIGN(a.channels, channels_from(json));
  STOKER_ASSIGN(a.network, network_from_json(json["network"]));
  STOKER_ASSIGN(a.job_dir, json.need_string("job_dir"));
  STOKER_TRY(check_absolute("job_dir", a.job_dir));
  STOKER_ASSIGN(a.stoker_home, json.need_string("stoker_home"));
  STOKER_TRY(check_absolute("stoker_home", a.stoker_home));
  STOKER_ASSIGN(a.code_dir, json.need_string("code_dir"));
  STOKER_TRY(check_absolute("code_dir", a.code_dir));
  a.entry.script = json["entry"]["script"].as_string();
  STOKER_ASSIGN(a.entry.command, strings_from(json["entry"], "command"));
  STOKER_ASSIGN(a.entry.arguments, strings_from(json["entry"], "arguments"));
  STOKER_ASSIGN(a.hyperparameters, map_from(json, "hyperparameters"));
  STOKER_ASSIGN(a.environment, map_from(json, "environment"));
  STOKER_ASSIGN(a.python, json.need_string("python"));
  STOKER_TRY(check_absolute("python", a.python));
  a.requirements_file = json["requirements_file"].as_string();
  STOKER_ASSIGN(a.readable, strings_from(json, "readable"));
  for (const auto& path : a.readable) STOKER_TRY(check_absolute("readable", path));
  STOKER_ASSIGN(a.feed.dispatchers, strings_from(json["feed"], "dispatchers"));
  a.feed.token_file = json["feed"]["token_file"].as_string();
  a.feed.sized = json["feed"]["sized"].as_bool();
  a.feed.joins = json["feed"]["joins"].as_bool();
  if (!a.feed.token_file.empty()) STOKER_TRY(check_absolute("feed.token_file", a.feed.token_file));
  STOKER_ASSIGN(a.uid, json.need_int("uid"));
  STOKER_ASSIGN(a.gid, json.need_int("gid"));
  STOKER_TRY(check_range("uid", static_cast<double>(a.uid), 0, 4294967294.0));
  STOKER_TRY(check_range("gid", static_cast<double>(a.gid), 0, 4294967294.0));
  a.grace_s = json["grace_s"].as_double(120);
  STOKER_TRY(check_range("grace_s", a.grace_s, 0, 7200));
  STOKER_TRY(check_consistent(a));
  return a;
}

Json to_json(const WantedSize& size) {
  Json json;
  json.set("group", size.group).set("wanted", size.wanted).set("workers", size.workers);
  json.set("demand_per_s", size.demand_per_s).set("supply_per_s", size.supply_per_s);
  json.set("stall", size.stall).set("reason", size.reason);
  return json;
}

// Some of it comes from a file that a script may write to.
WantedSize wanted_size_from_json(const Json& json) {
  WantedSize size;
  size.group = json["group"].as_string();
  size.wanted = std::clamp<int64_t>(json["wanted"].as_int(), 0, kMaxWanted);
  size.workers = std::clamp<int64_t>(json["workers"].as_int(), 0, kMaxWanted);
  size.demand_per_s = json["demand_per_s"].as_double();
  size.supply_per_s = json["supply_per_s"].as_double();
  size.stall = json["stall"].as_double();
  size.reason = cut_text(shown_text(json["reason"].as_string()), kMaxSizingReason);
  return size;
}

const char* AgentEvent::state() const {
  constexpr const char* kNames[] = {"preparing", "started", "exited",   "stopped",
                                    "failed",    "notice",  "released", "sizing"};
  return kNames[what.index()];
}

Json AgentEvent::to_json() const {
  Json json;
  if (auto* sizing = std::get_if<WantedSize>(&what)) json = stoker::agent::to_json(*sizing);
  json.set("seq", seq).set("time_ms", time_ms).set("state", state());
  if (auto* preparing = std::get_if<Preparing>(&what)) json.set("step", preparing->step);
  if (auto* started = std::get_if<Started>(&what)) json.set("pid", started->pid);
  if (auto* exited = std::get_if<Exited>(&what))
    json.set("code", exited->code)
        .set("signal", exited->signal)
        .set("oom", exited->oom)
        .set("reason", exited->reason)
        .set("failure", exited->failure);
  if (auto* stopped = std::get_if<Stopped>(&what))
    json.set("code", stopped->code).set("signal", stopped->signal).set("killed", stopped->killed);
  if (auto* failed = std::get_if<Failed>(&what))
    json.set("step", failed->step).set("message", failed->message);
  if (auto* notice = std::get_if<Notice>(&what)) json.set("text", notice->text);
  return json;
}

Result<AgentEvent> AgentEvent::from_json(const Json& json) {
  AgentEvent event;
  STOKER_ASSIGN(event.seq, json.need_int("seq"));
  event.time_ms = json["time_ms"].as_int();
  STOKER_ASSIGN(std::string state, json.need_string("state"));
  // Some of it is a script's or pip's own words.
  auto text = [&json](const char* key) {
    return std::string(cut_text(shown_text(json[key].as_string()), kMaxText));
  };
  int code = static_cast<int>(json["code"].as_int()), signal = static_cast<int>(json["signal"].as_int());
  if (state == "preparing")
    event.what = Preparing{text("step")};
  else if (state == "started")
    event.what = Started{json["pid"].as_int()};
  else if (state == "exited")
    event.what = Exited{code, signal, json["oom"].as_bool(), text("reason"), text("failure")};
  else if (state == "stopped")
    event.what = Stopped{code, signal, json["killed"].as_bool()};
  else if (state == "failed")
    event.what = Failed{text("step"), text("message")};
  else if (state == "notice")
    event.what = Notice{text("text")};
  else if (state == "sizing")
    event.what = wanted_size_from_json(json);
  else if (state == "released")
    event.what = Released{};
  else
    return invalid("state: '" + state + "' is not an agent's state");
  return event;
}

Json AgentCommand::to_json() const {
  const Stop& stop = std::get<Stop>(what);
  Json json;
  json.set("seq", seq).set("command", "stop").set("grace_s", stop.grace_s).set("reason", stop.reason);
  return json;
}

Result<AgentCommand> AgentCommand::from_json(const Json& json) {
  AgentCommand command;
  STOKER_ASSIGN(command.seq, json.need_int("seq"));
  STOKER_ASSIGN(std::string name, json.need_string("command"));
  if (name != "stop") return invalid("command: '" + name + "' is not known");
  double grace_s = json["grace_s"].as_double(120);
  STOKER_TRY(check_range("grace_s", grace_s, 0, 7200));
  command.what = Stop{grace_s, json["reason"].as_string()};
  return command;
}

}  // namespace stoker::agent
