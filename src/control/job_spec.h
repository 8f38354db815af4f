// SPDX-License-Identifier: Apache-2.0
// What a user asked for: everything about a job that does not change after it was accepted. A value, stored
// as JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/catalogue.h"
#include "control/group_spec.h"

namespace stoker::control {

struct JobGroup {
  GroupSpec spec;
  InstanceType type;
  // What its instances run. Empty: the job's script, or in a feed group the built-in feed worker.
  agent::Entry entry = {};

  bool is_loader_feed() const { return spec.role == agent::Role::kFeed && entry == agent::Entry{}; }
};

struct JobInput {
  std::string name;
  std::string folder;               // on the host, absolute
  std::vector<std::string> groups;  // empty: all
};

struct JobSpec {
  std::string name;
  std::string script;       // relative to the code folder
  std::string code_folder;  // where the code was taken from, absolute
  std::vector<std::string> arguments;
  std::vector<JobGroup> groups;
  std::vector<JobInput> inputs;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> hyperparameters;
  std::string python;        // absolute
  std::string requirements;  // relative to the code folder; "" for none
  double cpu_scale = 1;
  bool fewer_gpus = false;
  double grace_s = 120;

  int64_t gpus() const;  // that its instance types name
  bool has_role(agent::Role role) const;
  const JobGroup* find_group(const std::string& name) const;
  // What the script is given: its hyperparameters as SageMaker's toolkit gives them, `--NAME VALUE` by name,
  // then its own arguments.
  std::vector<std::string> script_arguments() const;

  Json to_json() const;
  static Result<JobSpec> from_json(const Json& json);  // of to_json()
};

struct ServerDefaults {
  double cpu_scale = 1;
};

// A JobSpec from what `POST /v1/jobs` carries (docs/formats/job-request.md). Checks everything that can be
// known without trying: names, groups, types, that files and folders are there. `name` stays "" if none was
// given.
Result<JobSpec> parse_request(const Json& request, const Catalogue& catalogue, const Machine& machine,
                              const ServerDefaults& defaults);

// Whether of the code folder only the script itself is taken: a program (neither .py nor .sh) in a folder
// named bin or sbin, which is of many programs and no project.
bool goes_alone(const JobSpec& spec);

// No input is stoker's own folder or what it keeps there beside the results of jobs.
Status check_inputs(const JobSpec& spec, const std::string& home);
Status check_job_name(const std::string& name);  // [a-zA-Z0-9-], at most 63, as SageMaker
// train-20261129-162005-ab12 from /x/train.py.
std::string make_job_name(const std::string& script, int64_t wall_ms, uint32_t random);

}  // namespace stoker::control
