// SPDX-License-Identifier: Apache-2.0
// Instance types: what a machine of that name has and costs. A row of instance-types.json (built in; the
// user's $STOKER_HOME/instance-types.json overrides rows by name), `here` (this machine), or
// `cpus=8,gpus=1,price=0.4`. Values; pure once loaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace stoker::control {

// What this machine offers to jobs.
struct Machine {
  double cores = 1;
  int64_t memory_bytes = 0;
  int64_t gpus = 0;
  std::string gpu_model;

  static Machine here();  // asks the kernel: affinity, memory, NVIDIA's driver
};

struct InstanceType {
  std::string name;    // ml.p3.2xlarge; here; cpus=8,gpus=1
  std::string family;  // p3; "" for types without an AWS name
  int64_t vcpus = 1;
  int64_t memory_bytes = 0;
  int64_t gpus = 0;
  std::string gpu_model;
  std::optional<double> price_per_hour;          // USD, managed training on demand
  std::optional<double> machine_price_per_hour;  // USD, the bare machine
  bool is_here = false;

  // cpu_scale is cores per vCPU; it scales memory too, never under 1 GiB. `here` is not scaled: its cores are
  // real.
  double cores(double cpu_scale) const;
  int64_t memory(double cpu_scale) const;

  Json to_json() const;
  static Result<InstanceType> from_json(const Json& json);
};

class Catalogue {
 public:
  // Of the rows that are built in.
  static Result<Catalogue> built_in();
  // Adds rows, replacing those of the same name; `where` names the file in errors.
  Status add(std::string_view text, const std::string& where);

  // `p3.2xlarge` is found as `ml.p3.2xlarge`. An unknown name is an error that names near ones.
  Result<InstanceType> find(const std::string& name, const Machine& machine) const;
  const std::map<std::string, InstanceType>& rows() const { return rows_; }

 private:
  std::map<std::string, InstanceType> rows_;
};

}  // namespace stoker::control
