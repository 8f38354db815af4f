// SPDX-License-Identifier: Apache-2.0
#include "control/request_shape.h"

#include <algorithm>
#include <span>

#include "base/text.h"

namespace stoker::control {
namespace {

struct Field {
  const char* name;
  bool (Json::*is_kind)() const;
  const char* kind;
};

constexpr Field kJobFields[] = {
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

constexpr Field kInputFields[] = {
    {"folder", &Json::is_string, "a text"},
    {"groups", &Json::is_array, "a list of texts"},
    {"name", &Json::is_string, "a text"},
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

// `what`: whose fields they are, for a message.
Status check_fields(const Json& object, std::span<const Field> fields, const std::string& what) {
  for (const auto& [name, value] : object.as_object()) {
    const std::string& typed = name;  // clang 14 lets no lambda use a structured binding
    auto field =
        std::find_if(fields.begin(), fields.end(), [&](const Field& one) { return one.name == typed; });
    if (field == fields.end()) {
      std::string known;
      for (const Field& one : fields) known += (known.empty() ? "" : ", ") + std::string(one.name);
      return invalid(what + " has no field '" + name + "'; it may have " + known);
    }
    if (!value.is_null() && !(value.*field->is_kind)())
      return invalid(name + " must be " + field->kind + ", not " + std::string(cut_text(value.dump(), 100)));
    if (holds_zero_byte(value)) return invalid(name + " holds a zero byte, which no text for a program can");
  }
  return ok();
}

}  // namespace

Status check_request_shape(const Json& request) {
  if (!request.is_object()) return invalid("a job is an object with at least a script");
  STOKER_TRY(check_fields(request, kJobFields, "a job"));
  for (const Json& input : request["inputs"].as_array()) {
    if (!input.is_object())
      return invalid("each of inputs must be an object, not " + std::string(cut_text(input.dump(), 100)));
    STOKER_TRY(check_fields(input, kInputFields, "an input"));
  }
  return ok();
}

}  // namespace stoker::control
