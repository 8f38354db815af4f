// SPDX-License-Identifier: Apache-2.0
#include "control/request_shape.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace stoker::control {
namespace {

struct Field {
  const char* name;
  bool (Json::*is_kind)() const;
  const char* kind;
};

constexpr Field kFields[] = {
    {"arguments", &Json::is_array, "a list"},
    {"code_folder", &Json::is_string, "a text"},
    {"cpu_scale", &Json::is_number, "a number; leave it out for the default"},
    {"entries", &Json::is_object, "an object of lists"},
    {"environment", &Json::is_object, "an object"},
    {"fewer_gpus", &Json::is_bool, "true or false"},
    {"grace_s", &Json::is_number, "a number; leave it out for the default"},
    {"groups", &Json::is_array, "a list of texts"},
    {"hyperparameters", &Json::is_object, "an object"},
    {"inputs", &Json::is_array, "a list"},
    {"name", &Json::is_string, "a text"},
    {"python", &Json::is_string, "a text"},
    {"requirements", &Json::is_string, "a text"},
    {"script", &Json::is_string, "a text"},
};

bool has_zero_byte(const std::string& text) { return text.find('\0') != std::string::npos; }

// Json is limited in depth, and so is this.
bool holds_zero_byte(const Json& value) {
  if (has_zero_byte(value.as_string())) return true;
  if (std::any_of(value.as_array().begin(), value.as_array().end(), holds_zero_byte)) return true;
  return std::any_of(value.as_object().begin(), value.as_object().end(), [](const auto& member) {
    return has_zero_byte(member.first) || holds_zero_byte(member.second);
  });
}

}  // namespace

Status check_request_shape(const Json& request) {
  if (!request.is_object()) return invalid("a job is an object with at least a script");
  for (const auto& [name, value] : request.as_object()) {
    auto field = std::find_if(std::begin(kFields), std::end(kFields),
                              [&](const Field& known) { return known.name == name; });
    if (field == std::end(kFields)) {
      std::string known;
      for (const Field& one : kFields) known += (known.empty() ? "" : ", ") + std::string(one.name);
      return invalid("a job has no field '" + name + "'; it may have " + known);
    }
    if (!value.is_null() && !(value.*field->is_kind)())
      return invalid(name + " must be " + field->kind + ", not " + std::string(cut_text(value.dump(), 100)));
    if (holds_zero_byte(value)) return invalid(name + " holds a zero byte, which no text for a program can");
  }
  return ok();
}

}  // namespace stoker::control
