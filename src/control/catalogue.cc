// SPDX-License-Identifier: Apache-2.0
#include "control/catalogue.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/number.h"

extern "C" {
extern const char stoker_instance_types[];
extern const char stoker_instance_types_end[];
}
// The data file itself, so that it is edited as data and the program needs nothing beside it.
__asm__(
    ".section .rodata\n"
    ".global stoker_instance_types\n"
    "stoker_instance_types:\n"
    ".incbin \"" STOKER_INSTANCE_TYPES
    "\"\n"
    ".global stoker_instance_types_end\n"
    "stoker_instance_types_end:\n"
    ".byte 0\n"
    ".text\n");

namespace stoker::control {

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr double kMostCpus = 1e5, kMostGpus = 1e4, kMostMemoryGiB = 1e6;
constexpr NumberLimits kCpus{1, kMostCpus, "vCPUs", true}, kGpus{0, kMostGpus, "accelerators", true};
constexpr NumberLimits kMemory{0, kMostMemoryGiB, "GiB"}, kPrice{0, 1e6, "USD per hour"};

std::optional<double> price_of(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  return json.as_double();
}

Result<InstanceType> custom_type(const std::string& text) {
  InstanceType type;
  type.name = text;
  std::set<std::string_view> given;
  double memory_gib = 0;
  for (std::string_view rest = text; !rest.empty();) {
    size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    size_t equals = item.find('=');
    std::string_view key = item.substr(0, equals);
    if (equals == std::string_view::npos)
      return invalid("'" + std::string(item) + "' in '" + text + "': expected KEY=NUMBER");
    const NumberLimits* limits = key == "cpus"     ? &kCpus
                                 : key == "gpus"   ? &kGpus
                                 : key == "memory" ? &kMemory
                                 : key == "price"  ? &kPrice
                                                   : nullptr;
    if (!limits)
      return invalid("'" + std::string(key) + "' in '" + text +
                     "' is not known: cpus, gpus, memory (GiB) and price (USD per hour) are");
    if (!given.insert(key).second)
      return invalid("'" + std::string(key) + "' is given twice in '" + text + "'");
    auto value = typed_number(*limits, item.substr(equals + 1));
    if (!value.ok()) return std::move(value).error().during(std::string(key) + " in '" + text + "'");
    if (key == "cpus") type.vcpus = static_cast<int64_t>(*value);
    if (key == "gpus") type.gpus = static_cast<int64_t>(*value);
    if (key == "memory") memory_gib = *value;
    if (key == "price") type.price_per_hour = *value;
  }
  if (!given.contains("cpus")) return invalid("'" + text + "' does not say how many: cpus=N");
  if (memory_gib == 0) memory_gib = 4.0 * static_cast<double>(type.vcpus);
  type.memory_bytes = static_cast<int64_t>(memory_gib * static_cast<double>(kGiB));
  return type;
}

}  // namespace

double InstanceType::cores(double cpu_scale) const {
  return is_here ? static_cast<double>(vcpus) : static_cast<double>(vcpus) * cpu_scale;
}

int64_t InstanceType::memory(double cpu_scale) const {
  if (is_here) return memory_bytes;
  return std::max(kGiB, static_cast<int64_t>(static_cast<double>(memory_bytes) * cpu_scale));
}

Json InstanceType::to_json() const {
  Json json;
  json.set("name", name).set("family", family).set("vcpus", vcpus).set("memory_bytes", memory_bytes);
  json.set("gpus", gpus).set("gpu_model", gpu_model).set("here", is_here);
  json.set("price_per_hour", price_per_hour ? Json(*price_per_hour) : Json());
  json.set("machine_price_per_hour", machine_price_per_hour ? Json(*machine_price_per_hour) : Json());
  return json;
}

Result<InstanceType> InstanceType::from_json(const Json& json) {
  InstanceType type;
  STOKER_ASSIGN(type.name, json.need_string("name"));
  STOKER_ASSIGN(type.vcpus, json.need_int("vcpus"));
  STOKER_ASSIGN(type.memory_bytes, json.need_int("memory_bytes"));
  type.family = json["family"].as_string();
  type.gpus = json["gpus"].as_int();
  type.gpu_model = json["gpu_model"].as_string();
  type.is_here = json["here"].as_bool();
  type.price_per_hour = price_of(json["price_per_hour"]);
  type.machine_price_per_hour = price_of(json["machine_price_per_hour"]);
  return type;
}

Result<Catalogue> Catalogue::built_in() {
  Catalogue catalogue;
  std::string_view text(stoker_instance_types,
                        static_cast<size_t>(stoker_instance_types_end - stoker_instance_types));
  STOKER_TRY(catalogue.add(text, "the built-in instance types"));
  return catalogue;
}

Status Catalogue::add(std::string_view text, const std::string& where) {
  auto parsed = Json::parse(text);
  if (!parsed.ok()) return std::move(parsed).error().during("reading " + where);
  for (const Json& row : (*parsed)["instances"].as_array()) {
    InstanceType type;
    type.name = row["type"].as_string();
    type.family = row["family"].as_string();
    type.vcpus = row["vcpu"].as_int();
    double memory_gib = row["memory_gib"].as_double();
    if (type.name.empty() || type.vcpus < 1 || type.vcpus > static_cast<int64_t>(kMostCpus) ||
        !(memory_gib > 0 && memory_gib <= kMostMemoryGiB))
      return invalid(where + ": a row needs type, vcpu and memory_gib: " + row.dump());
    type.memory_bytes = static_cast<int64_t>(memory_gib * static_cast<double>(kGiB));
    if (row["accelerator_kind"].as_string() == "gpu") type.gpus = row["accelerator_count"].as_int();
    if (type.gpus < 0 || type.gpus > static_cast<int64_t>(kMostGpus))
      return invalid(where + ": accelerator_count is not a number of accelerators: " + row.dump());
    type.gpu_model = row["accelerator_model"].as_string();
    for (auto [field, price] : {std::pair("sagemaker_usd_per_hour", &type.price_per_hour),
                                std::pair("ec2_usd_per_hour", &type.machine_price_per_hour)}) {
      if (row[field].is_null()) continue;  // not known
      auto value = sent_number(kPrice, row[field]);
      if (!value.ok()) return std::move(value).error().during(where + ": " + type.name + ": " + field);
      *price = *value;
    }
    rows_[type.name] = std::move(type);
  }
  return ok();
}

Result<InstanceType> Catalogue::find(const std::string& name, const Machine& machine) const {
  if (name == "here") {
    InstanceType type;
    type.name = "here";
    type.is_here = true;
    type.vcpus = std::max<int64_t>(1, static_cast<int64_t>(std::floor(machine.cores)));
    type.memory_bytes = machine.memory_bytes;
    type.gpus = machine.gpus;
    type.gpu_model = machine.gpu_model;
    return type;
  }
  if (name.find('=') != std::string::npos) return custom_type(name);
  auto at = rows_.find(name);
  if (at == rows_.end()) at = rows_.find("ml." + name);
  if (at != rows_.end()) return at->second;
  std::string bare = name.substr(0, 3) == "ml." ? name.substr(3) : name;
  std::string family = bare.substr(0, bare.find('.'));
  std::string near;
  for (const auto& [key, type] : rows_)
    if (type.family == family) near += (near.empty() ? "" : ", ") + key;
  return invalid("no instance type '" + name + "'" +
                 (near.empty() ? std::string() : "; of that family there are " + near) +
                 "; `here` is this machine, and cpus=8,gpus=1,price=0.4 names any other");
}

}  // namespace stoker::control
