// SPDX-License-Identifier: Apache-2.0
#include "control/job_spec.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/number.h"
#include "control/request_shape.h"

namespace stoker::control {

namespace {

bool is_folder(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}
bool is_file(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}
// One spelling for each folder: no "..", no slash at the end.
std::filesystem::path tidy_folder(const std::string& text) {
  std::filesystem::path folder = std::filesystem::path(text).lexically_normal();
  return folder.has_filename() ? folder : folder.parent_path();
}
Error not_found(std::string message) { return {Code::kNotFound, std::move(message), {}}; }

bool valid_channel(const std::string& name) {
  if (name.empty() || name.size() > 64 || name[0] == '.' || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

Json strings(const std::vector<std::string>& list) {
  Json::Array array;
  for (const std::string& item : list) array.emplace_back(item);
  return array;
}

Result<std::vector<std::string>> string_list(const Json& json, const std::string& what) {
  std::vector<std::string> list;
  if (json.is_null()) return list;
  if (!json.is_array()) return invalid(what + " must be a list of texts");
  for (const Json& item : json.as_array()) {
    if (!item.is_string()) return invalid(what + " must be a list of texts");
    list.push_back(item.as_string());
  }
  return list;
}

Result<std::map<std::string, std::string>> string_map(const Json& json, const std::string& what) {
  std::map<std::string, std::string> map;
  if (!json.is_null() && !json.is_object()) return invalid(what + " must be an object of texts");
  for (const auto& [key, value] : json.as_object()) {
    if (!value.is_string()) return invalid(what + " " + key + " must be a text");
    map[key] = value.as_string();
  }
  return map;
}

constexpr NumberLimits kCpuScale{0.001, 16, "cores per vCPU"}, kGrace{0, 3600, "seconds"};

// The member of that name, or `otherwise` where there is none.
Result<double> number_or(double otherwise, const Json& request, const char* key, const NumberLimits& limits) {
  if (request[key].is_null()) return otherwise;
  auto value = sent_number(limits, request[key]);
  if (value.ok()) return value;
  return invalid(std::string(key) + ": " + value.error().message + "; leave it out for the default");
}

bool can_run(const std::filesystem::path& script) {
  return script.extension() == ".py" || script.extension() == ".sh" || ::access(script.c_str(), X_OK) == 0;
}

Error not_runnable(const std::string& script) {
  return {Code::kDenied, "'" + script + "' is neither .py nor .sh, and not executable; chmod +x it", {}};
}

Status parse_script(const Json& request, JobSpec& spec) {
  STOKER_ASSIGN(std::string script, request.need_string("script"));
  if (script.empty() || script[0] != '/')
    return invalid("script must be an absolute path, not '" + script + "'");
  std::filesystem::path path = std::filesystem::path(script).lexically_normal();
  if (is_folder(path)) return not_found("'" + script + "' is a folder; name the script in it that is to run");
  if (!is_file(path)) return not_found("there is no script '" + script + "'");
  spec.code_folder = path.parent_path();
  spec.script = path.filename();
  if (request.has("code_folder")) {
    std::filesystem::path folder = tidy_folder(request["code_folder"].as_string());
    std::filesystem::path relative = path.lexically_relative(folder);
    if (!folder.is_absolute() || relative.empty() || *relative.begin() == "..")
      return invalid("the script '" + script + "' is not inside the code folder '" + folder.string() + "'");
    spec.code_folder = folder;
    spec.script = relative;
  }
  if (!can_run(path)) return not_runnable(script);
  return ok();
}

Status parse_groups(const Json& request, const Catalogue& catalogue, const Machine& machine, JobSpec& spec) {
  STOKER_ASSIGN(std::vector<std::string> texts, string_list(request["groups"], "groups"));
  if (texts.empty()) texts.push_back("train=1xhere");
  std::vector<GroupSpec> groups;
  for (const std::string& text : texts) {
    STOKER_ASSIGN(GroupSpec group, parse_group(text));
    groups.push_back(std::move(group));
  }
  STOKER_TRY(check_groups(groups));
  for (GroupSpec& group : groups) {
    auto type = catalogue.find(group.type, machine);
    if (!type.ok()) return std::move(type).error().during("group '" + group.name + "'");
    spec.groups.push_back({std::move(group), std::move(*type), {}});
  }
  return ok();
}

// A first word that is a file of the code folder is a script; any other is a program, which the instance
// looks for.
Result<agent::Entry> entry_of(std::vector<std::string> words, const std::filesystem::path& code_folder) {
  if (words.empty() || words[0].empty()) return invalid("nothing to run; e.g. 'work.py -n 4'");
  const std::string& first = words[0];
  std::filesystem::path path = (code_folder / first).lexically_normal();  // an absolute one stays as it is
  std::filesystem::path inside = path.lexically_relative(code_folder);
  const bool outside = inside.empty() || *inside.begin() == "..";
  if (!outside && is_file(path)) {
    if (!can_run(path)) return not_runnable(first);
    return agent::Entry{inside, {}, {words.begin() + 1, words.end()}};
  }
  if (outside && first[0] != '/')
    return invalid("'" + first + "' is outside the code folder '" + code_folder.string() + "'");
  if (!outside && (first.ends_with(".py") || first.ends_with(".sh") || first.find('/') != std::string::npos))
    return not_found("there is no '" + first + "' in the code folder '" + code_folder.string() + "'");
  return agent::Entry{{}, std::move(words), {}};
}

Status parse_entries(const Json& request, JobSpec& spec) {
  for (const auto& entry_json : request["entries"].as_object()) {
    const std::string& name = entry_json.first;  // no structured binding: clang 14 lets no lambda use one
    auto group = std::find_if(spec.groups.begin(), spec.groups.end(),
                              [&](const JobGroup& one) { return one.spec.name == name; });
    if (group == spec.groups.end()) return invalid("entry of group '" + name + "': there is no such group");
    STOKER_ASSIGN(std::vector<std::string> list,
                  string_list(entry_json.second, "entry of group '" + name + "'"));
    auto entry = entry_of(std::move(list), spec.code_folder);
    if (!entry.ok()) return std::move(entry).error().during("entry of group '" + name + "'");
    group->entry = std::move(*entry);
    if (group->spec.elastic())
      return invalid("group '" + name +
                     "' runs something of its own, of which nobody knows how much is needed: " +
                     "give it a plain count, or leave --entry out");
  }
  return ok();
}

Status parse_inputs(const Json& request, JobSpec& spec) {
  for (const Json& item : request["inputs"].as_array()) {
    JobInput input;
    STOKER_ASSIGN(input.name, item.need_string("name"));
    STOKER_ASSIGN(input.folder, item.need_string("folder"));
    STOKER_ASSIGN(input.groups, string_list(item["groups"], "groups of input " + input.name));
    if (!valid_channel(input.name))
      return invalid(
          "input '" + input.name +
          "': the name must be letters, digits, '-', '_' or '.', the first a letter, digit or '_'");
    for (const JobInput& other : spec.inputs)
      if (other.name == input.name) return invalid("two inputs are named '" + input.name + "'");
    if (input.folder.empty() || input.folder[0] != '/')
      return invalid("input '" + input.name + "': the folder must be an absolute path");
    input.folder = tidy_folder(input.folder);
    if (is_file(input.folder))
      return invalid("input '" + input.name + "': '" + input.folder +
                     "' is a file, and an input is a folder");
    if (!is_folder(input.folder))
      return not_found("input '" + input.name + "': there is no folder '" + input.folder + "'");
    for (const std::string& group : input.groups)
      if (!spec.find_group(group))
        return invalid("input '" + input.name + "': there is no group '" + group + "'");
    spec.inputs.push_back(std::move(input));
  }
  return ok();
}

Status parse_requirements(const Json& request, JobSpec& spec) {
  std::string text = request["requirements"].as_string();
  if (text.empty()) {
    // The script's own folder first: a script in a sub-folder may bring its own.
    std::filesystem::path beside = std::filesystem::path(spec.script).parent_path() / "requirements.txt";
    if (is_file(spec.code_folder / beside)) spec.requirements = beside;
    return ok();
  }
  std::filesystem::path relative =
      std::filesystem::path(text).lexically_normal().lexically_relative(spec.code_folder);
  if (text[0] != '/' || !is_file(text)) return not_found("there is no requirements file '" + text + "'");
  if (relative.empty() || *relative.begin() == "..")
    return invalid("the requirements file '" + text + "' is outside the code folder '" + spec.code_folder +
                   "'; move it beside the script");
  spec.requirements = relative;
  return ok();
}

// As Python prints what the toolkit has read; an object as NAME=VALUE,….
std::string as_argument(const std::string& text) {
  auto read = Json::parse(text);
  if (!read.ok()) return text;
  if (read->is_string()) return read->as_string();
  if (read->is_bool()) return read->as_bool() ? "True" : "False";
  if (read->is_null()) return "None";
  if (!read->is_object()) return text;
  std::string joined;
  for (const auto& [name, value] : read->as_object())
    joined += (joined.empty() ? "" : ",") + name + "=" + as_argument(value.dump());
  return joined;
}

}  // namespace

int64_t JobSpec::gpus() const {
  int64_t total = 0;
  for (const JobGroup& group : groups) total += group.type.gpus * group.spec.count;
  return total;
}

bool JobSpec::has_role(agent::Role role) const {
  return std::any_of(groups.begin(), groups.end(),
                     [&](const JobGroup& group) { return group.spec.role == role; });
}

const JobGroup* JobSpec::find_group(const std::string& group_name) const {
  for (const JobGroup& group : groups)
    if (group.spec.name == group_name) return &group;
  return nullptr;
}

std::vector<std::string> JobSpec::script_arguments() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : hyperparameters) {
    if (key.starts_with("sagemaker_")) continue;  // the framework's, as there
    words.push_back((key.size() > 1 ? "--" : "-") + key);
    words.push_back(as_argument(value));
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

Json JobSpec::to_json() const {
  Json json;
  json.set("name", name).set("script", script).set("code_folder", code_folder);
  json.set("arguments", strings(arguments)).set("python", python).set("requirements", requirements);
  json.set("cpu_scale", cpu_scale).set("fewer_gpus", fewer_gpus).set("grace_s", grace_s);
  Json::Array group_list;
  for (const JobGroup& group : groups) {
    Json item;
    item.set("name", group.spec.name)
        .set("count", group.spec.count)
        .set("most", group.spec.most)
        .set("type", group.type.to_json());
    item.set("typed", group.spec.type).set("role", agent::role_name(group.spec.role));
    item.set("serves", strings(group.spec.serves));
    item.set("script", group.entry.script).set("command", strings(group.entry.command));
    item.set("arguments", strings(group.entry.arguments));
    group_list.push_back(std::move(item));
  }
  json.set("groups", std::move(group_list));
  Json::Array input_list;
  for (const JobInput& input : inputs) {
    Json item;
    item.set("name", input.name).set("folder", input.folder).set("groups", strings(input.groups));
    input_list.push_back(std::move(item));
  }
  json.set("inputs", std::move(input_list));
  Json::Object env, hps;
  for (const auto& [key, value] : environment) env[key] = value;
  for (const auto& [key, value] : hyperparameters) hps[key] = value;
  json.set("environment", std::move(env)).set("hyperparameters", std::move(hps));
  return json;
}

Result<JobSpec> JobSpec::from_json(const Json& json) {
  JobSpec spec;
  STOKER_ASSIGN(spec.name, json.need_string("name"));
  STOKER_ASSIGN(spec.script, json.need_string("script"));
  STOKER_ASSIGN(spec.code_folder, json.need_string("code_folder"));
  STOKER_ASSIGN(spec.arguments, string_list(json["arguments"], "arguments"));
  spec.python = json["python"].as_string();
  spec.requirements = json["requirements"].as_string();
  spec.cpu_scale = json["cpu_scale"].as_double(1);
  spec.fewer_gpus = json["fewer_gpus"].as_bool();
  spec.grace_s = json["grace_s"].as_double(120);
  for (const Json& item : json["groups"].as_array()) {
    JobGroup group;
    STOKER_ASSIGN(group.spec.name, item.need_string("name"));
    STOKER_ASSIGN(group.spec.count, item.need_int("count"));
    group.spec.most = item["most"].as_int();
    group.spec.type = item["typed"].as_string();
    const std::string& role = item["role"].as_string();
    group.spec.role = role == "feed"  ? agent::Role::kFeed
                      : role == "aux" ? agent::Role::kAux
                                      : agent::Role::kNone;
    STOKER_ASSIGN(group.spec.serves, string_list(item["serves"], "serves"));
    STOKER_ASSIGN(group.type, InstanceType::from_json(item["type"]));
    group.entry.script = item["script"].as_string();
    STOKER_ASSIGN(group.entry.command, string_list(item["command"], "command"));
    STOKER_ASSIGN(group.entry.arguments, string_list(item["arguments"], "arguments"));
    spec.groups.push_back(std::move(group));
  }
  for (const Json& item : json["inputs"].as_array()) {
    JobInput input;
    STOKER_ASSIGN(input.name, item.need_string("name"));
    STOKER_ASSIGN(input.folder, item.need_string("folder"));
    STOKER_ASSIGN(input.groups, string_list(item["groups"], "groups"));
    spec.inputs.push_back(std::move(input));
  }
  STOKER_ASSIGN(spec.environment, string_map(json["environment"], "environment"));
  STOKER_ASSIGN(spec.hyperparameters, string_map(json["hyperparameters"], "hyperparameters"));
  return spec;
}

// The kernel hands no single argument or variable of 128 KiB to a program (MAX_ARG_STRLEN), and all arguments
// are in SM_USER_ARGS (hyperparameters among them), all hyperparameters in SM_TRAINING_ENV with what else is
// known of the job. Of all together, ours included, it hands over 2 MiB (a quarter of the usual stack).
static Status check_sizes(const JobSpec& spec) {
  constexpr size_t kLongest = 131'000, kMostHyperparameters = 100'000, kMostVariables = 1'000'000;
  auto check = [](size_t bytes, size_t most, const std::string& what) -> Status {
    if (bytes <= most) return ok();
    return invalid(what + ": " + std::to_string(bytes) + " bytes, of which at most " + std::to_string(most) +
                   " reach a program; put them in a file of the code folder or of an input");
  };
  STOKER_TRY(
      check(Json(strings(spec.script_arguments())).dump().size(), kLongest, "the arguments (SM_USER_ARGS)"));
  Json::Object values;
  for (const auto& [name, text] : spec.hyperparameters) values[name] = text;
  STOKER_TRY(check(Json(values).dump().size(), kMostHyperparameters, "the hyperparameters"));
  for (const JobGroup& group : spec.groups) {
    std::vector<std::string> words = group.entry.command;
    words.insert(words.end(), group.entry.arguments.begin(), group.entry.arguments.end());
    STOKER_TRY(
        check(Json(strings(words)).dump().size(), kLongest, "the entry of group '" + group.spec.name + "'"));
  }
  size_t variables = 0;
  for (const auto& [name, text] : spec.environment) {
    STOKER_TRY(check(name.size() + text.size(), kLongest, "environment variable " + name));
    variables += name.size() + text.size() + 10;  // "=", its end, a pointer
  }
  return check(variables, kMostVariables, "the environment variables");
}

Result<JobSpec> parse_request(const Json& request, const Catalogue& catalogue, const Machine& machine,
                              const ServerDefaults& defaults) {
  STOKER_TRY(check_request_shape(request));
  JobSpec spec;
  spec.name = request["name"].as_string();
  if (!spec.name.empty()) STOKER_TRY(check_job_name(spec.name));
  STOKER_TRY(parse_script(request, spec));
  STOKER_TRY(parse_groups(request, catalogue, machine, spec));
  STOKER_TRY(parse_entries(request, spec));
  STOKER_TRY(parse_inputs(request, spec));
  STOKER_TRY(parse_requirements(request, spec));
  STOKER_ASSIGN(spec.arguments, string_list(request["arguments"], "arguments"));
  STOKER_ASSIGN(spec.environment, string_map(request["environment"], "environment variable"));
  STOKER_ASSIGN(spec.hyperparameters, string_map(request["hyperparameters"], "hyperparameter"));
  STOKER_TRY(check_sizes(spec));
  for (const auto& [key, _] : spec.environment)
    if (key.empty() || key.find('=') != std::string::npos)
      return invalid("'" + key + "' is no name of an environment variable");
  for (const auto& [key, _] : spec.hyperparameters)
    if (key.empty() || key.find('=') != std::string::npos)
      return invalid("'" + key + "' is no name of a hyperparameter: it becomes that of a variable");

  spec.python = request["python"].as_string();
  if (spec.python.empty() || spec.python[0] != '/')
    return invalid("python must be the absolute path of an interpreter, not '" + spec.python + "'");
  if (::access(spec.python.c_str(), X_OK) != 0)
    return not_found("there is no Python interpreter '" + spec.python + "'; name one with --python");

  spec.fewer_gpus = request["fewer_gpus"].as_bool();
  STOKER_ASSIGN(spec.cpu_scale, number_or(defaults.cpu_scale, request, "cpu_scale", kCpuScale));
  STOKER_ASSIGN(spec.grace_s, number_or(spec.grace_s, request, "grace_s", kGrace));
  return spec;
}

bool goes_alone(const JobSpec& spec) {
  const std::filesystem::path script(spec.script), folder(spec.code_folder);
  const bool is_program = script.extension() != ".py" && script.extension() != ".sh";
  const bool others_run = std::any_of(spec.groups.begin(), spec.groups.end(), [](const JobGroup& group) {
    return group.entry != agent::Entry{};  // from the same folder
  });
  return is_program && !others_run && !script.has_parent_path() && spec.requirements.empty() &&
         (folder.filename() == "bin" || folder.filename() == "sbin");
}

Status check_inputs(const JobSpec& spec, const std::string& home) {
  for (const JobInput& input : spec.inputs) {
    std::error_code error;
    const auto within = std::filesystem::canonical(input.folder, error).lexically_relative(home);
    if (error || within.empty() || *within.begin() == "..")
      continue;  // above it: hidden there, see the layout
    std::vector<std::string> parts(within.begin(), within.end());
    constexpr const char* kResults[] = {"model", "checkpoints", "output"};
    const bool is_result =
        parts.size() >= 3 && parts[0] == "jobs" &&
        std::find(std::begin(kResults), std::end(kResults), parts[2]) != std::end(kResults);
    if (!is_result)
      return invalid("input '" + input.name + "': " + input.folder + " is in stoker's own folder, " + home +
                     ", of which jobs see only results: give jobs/JOB/model, checkpoints or output in it");
  }
  return ok();
}

Status check_job_name(const std::string& name) {
  bool good = !name.empty() && name.size() <= 63 && name.front() != '-' && name.back() != '-' &&
              name != "last" && std::all_of(name.begin(), name.end(), [](unsigned char c) {
                return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
              });
  if (good) return ok();
  return invalid("the job name '" + name +
                 "' must be 1 to 63 letters, digits and '-', not begin or end with '-', and not be 'last'");
}

std::string make_job_name(const std::string& script, int64_t wall_ms, uint32_t random) {
  std::string stem = std::filesystem::path(script).stem();
  std::string name;
  for (unsigned char c : stem) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain)
      name.push_back(static_cast<char>(c));
    else if (!name.empty() && name.back() != '-')
      name.push_back('-');
    if (name.size() == 32) break;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.empty()) name = "job";
  time_t seconds = static_cast<time_t>(wall_ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char tail[32];
  std::strftime(tail, sizeof tail, "-%Y%m%d-%H%M%S-", &utc);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%04x", random & 0xffff);
  return name + tail + digits;
}

}  // namespace stoker::control
