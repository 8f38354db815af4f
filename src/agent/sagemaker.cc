// SPDX-License-Identifier: Apache-2.0
#include "agent/sagemaker.h"

#include <algorithm>
#include <cmath>

namespace stoker::agent {
namespace {

constexpr const char* kInterface = "eth0";

std::vector<std::string> sorted_hosts(const Assignment& a) {
  std::vector<std::string> hosts;
  for (const auto& [host, address] : a.addresses) hosts.push_back(host);
  return hosts;  // a map's order is lexicographic, which is SageMaker's: algo-10 before algo-2
}

Json to_array(const std::vector<std::string>& values) {
  Json::Array array;
  for (const auto& value : values) array.emplace_back(value);
  return array;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  return text;
}

// As the toolkit reads hyperparameters: what parses as JSON is that value, anything else the text itself.
Json decoded(const std::string& text) {
  auto value = Json::parse(text);
  return value.ok() ? std::move(value).value() : Json(text);
}

std::string as_variable(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

Json group_json(const Group& group) {
  Json json;
  json.set("instance_group_name", group.name).set("instance_type", group.instance_type);
  json.set("hosts", to_array(group.hosts));
  return json;
}

Json input_data(const Assignment& a) {
  Json::Object channels;
  for (const auto& channel : a.channels)
    channels[channel.name] = Json::Object{{"TrainingInputMode", "File"},
                                          {"S3DistributionType", "FullyReplicated"},
                                          {"RecordWrapperType", "None"}};
  return channels;
}

Json hyperparameters(const Assignment& a) {
  Json::Object values;
  for (const auto& [name, text] : a.hyperparameters) values[name] = decoded(text);
  return values;
}

using Variables = std::map<std::string, std::string>;

void add_groups(const Assignment& a, Variables& v) {
  const Group& own = *a.find_group(a.group);
  Json::Array names;
  Json::Object by_name;
  for (const auto& group : a.groups) {
    names.emplace_back(group.name);
    by_name[group.name] = group_json(group);
  }
  v["SM_CURRENT_INSTANCE_GROUP"] = a.group;
  v["SM_CURRENT_INSTANCE_GROUP_HOSTS"] = to_array(own.hosts).dump();
  v["SM_INSTANCE_GROUPS"] = Json(names).dump();
  v["SM_INSTANCE_GROUPS_DICT"] = Json(by_name).dump();
  v["SM_DISTRIBUTION_INSTANCE_GROUPS"] = "[]";
  v["SM_IS_HETERO"] = a.groups.size() > 1 ? "true" : "false";
}

void add_folders(Variables& v) {
  v["SM_MODEL_DIR"] = "/opt/ml/model";
  v["SM_MODULE_DIR"] = "/opt/ml/code";
  v["SM_INPUT_DIR"] = "/opt/ml/input";
  v["SM_INPUT_CONFIG_DIR"] = "/opt/ml/input/config";
  v["SM_OUTPUT_DIR"] = "/opt/ml/output";
  v["SM_OUTPUT_DATA_DIR"] = "/opt/ml/output/data";
  v["SM_OUTPUT_INTERMEDIATE_DIR"] = "/opt/ml/output/intermediate";
}

void add_entry(const Assignment& a, Variables& v) {
  std::string module = a.entry.script;
  if (module.ends_with(".py")) module.resize(module.size() - 3);
  v["SM_USER_ENTRY_POINT"] = a.entry.script;
  v["SM_MODULE_NAME"] = module;
  v["SM_USER_ARGS"] = to_array(a.entry.arguments).dump();
  v["SM_HPS"] = hyperparameters(a).dump();
  for (const auto& [name, text] : a.hyperparameters) v["SM_HP_" + upper(name)] = as_variable(decoded(text));
  v["SM_FRAMEWORK_PARAMS"] = "{}";
}

void add_channels(const Assignment& a, Variables& v) {
  std::vector<std::string> names;
  for (const auto& channel : a.channels) {
    names.push_back(channel.name);
    v["SM_CHANNEL_" + upper(channel.name)] = "/opt/ml/input/data/" + channel.name;
  }
  std::sort(names.begin(), names.end());
  v["SM_CHANNELS"] = to_array(names).dump();
  v["SM_INPUT_DATA_CONFIG"] = input_data(a).dump();
}

// The toolkit's summary of it all.
Json training_env(const Assignment& a) {
  Json::Object channel_dirs;
  for (const auto& channel : a.channels) channel_dirs[channel.name] = "/opt/ml/input/data/" + channel.name;
  Json env;
  env.set("channel_input_dirs", channel_dirs)
      .set("current_host", a.host)
      .set("current_instance_group", a.group);
  env.set("current_instance_type", a.instance_type).set("hosts", to_array(sorted_hosts(a)));
  env.set("hyperparameters", hyperparameters(a)).set("input_config_dir", "/opt/ml/input/config");
  env.set("input_data_config", input_data(a)).set("input_dir", "/opt/ml/input").set("job_name", a.job);
  env.set("is_hetero", a.groups.size() > 1)
      .set("model_dir", "/opt/ml/model")
      .set("module_dir", "/opt/ml/code");
  env.set("network_interface_name", kInterface).set("num_cpus", a.vcpus).set("num_gpus", a.gpus);
  env.set("output_dir", "/opt/ml/output").set("output_data_dir", "/opt/ml/output/data");
  env.set("resource_config", *Json::parse(resource_file(a))).set("user_entry_point", a.entry.script);
  return env;
}

void add_threads(const Assignment& a, Variables& v) {
  const std::string threads = std::to_string(std::max<long>(1, std::lround(a.cores)));
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) v[name] = threads;
}

void add_ours(const Assignment& a, Variables& v) {
  v["STOKER_JOB"] = a.job;
  v["STOKER_TELEMETRY_DIR"] = "/opt/ml/telemetry";
  v["STOKER_PYTHON"] = a.python;
  v["STOKER_CORES"] = Json(a.cores).dump();
  if (a.feed.dispatchers.empty()) return;
  v["STOKER_FEED_TOKEN_FILE"] = "/opt/ml/input/config/feed-token";
  if (a.is_served()) v["STOKER_FEED"] = a.feed.dispatchers.front();
}

}  // namespace

std::string hyperparameters_file(const Assignment& a) {
  Json::Object values;
  for (const auto& [name, text] : a.hyperparameters) values[name] = text;
  return Json(values).dump();
}

std::string input_data_file(const Assignment& a) { return input_data(a).dump(); }

std::string resource_file(const Assignment& a) {
  auto text = [](const std::string& value) { return Json(value).dump(); };
  std::string groups;
  for (const auto& group : a.groups) {
    if (!groups.empty()) groups += ",";
    groups += "{\"instance_group_name\":" + text(group.name) +
              ",\"instance_type\":" + text(group.instance_type) +
              ",\"hosts\":" + to_array(group.hosts).dump() + "}";
  }
  return "{\"current_host\":" + text(a.host) + ",\"current_instance_type\":" + text(a.instance_type) +
         ",\"current_group_name\":" + text(a.group) + ",\"hosts\":" + to_array(sorted_hosts(a)).dump() +
         ",\"instance_groups\":[" + groups + "],\"network_interface_name\":\"" + kInterface + "\"}";
}

std::string hosts_file(const Assignment& a) {
  std::string text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
  for (const auto& [host, address] : a.addresses) text += address + " " + host + "\n";
  return text;
}

std::map<std::string, std::string> instance_environment(const Assignment& a) {
  Variables v;
  v["SM_HOSTS"] = to_array(sorted_hosts(a)).dump();
  v["SM_CURRENT_HOST"] = a.host;
  v["SM_CURRENT_INSTANCE_TYPE"] = a.instance_type;
  v["SM_NETWORK_INTERFACE_NAME"] = kInterface;
  v["SM_NUM_CPUS"] = std::to_string(a.vcpus);
  v["SM_NUM_GPUS"] = std::to_string(a.gpus);
  v["SM_NUM_NEURONS"] = "0";
  v["SM_LOG_LEVEL"] = "20";
  v["SM_RESOURCE_CONFIG"] = resource_file(a);
  v["TRAINING_JOB_NAME"] = v["SAGEMAKER_JOB_NAME"] = a.job;
  v["CURRENT_HOST"] = a.host;
  add_groups(a, v);
  add_folders(v);
  add_entry(a, v);
  add_channels(a, v);
  v["SM_TRAINING_ENV"] = training_env(a).dump();
  add_threads(a, v);
  add_ours(a, v);
  for (const auto& [name, value] : a.environment) v[name] = value;
  return v;
}

}  // namespace stoker::agent
