// SPDX-License-Identifier: Apache-2.0
// Fields: reads one JSON object from outside, field by field, and refuses those that nobody asked for. Every
// error names the field's path. Confined; borrows the object.
#pragma once

#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace stoker::pipeline {

inline constexpr size_t kMaxPlanBytes = 64 << 10;

inline bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  const Json& peek(std::string_view key) const { return object_[key]; }
  const Json& take(std::string_view key) {
    taken_.emplace(key);
    return object_[key];
  }
  Result<std::string> text(std::string_view key) { return at(take_with(key).need_string(key)); }
  Result<int64_t> integer(std::string_view key) { return at(take_with(key).need_int(key)); }
  Result<double> number(std::string_view key) { return at(take_with(key).need_number(key)); }

  Result<std::vector<double>> numbers(std::string_view key, size_t count) {
    const Json& list = take(key);
    std::vector<double> out;
    for (const Json& item : list.as_array())
      if (item.is_number() && std::isfinite(item.as_double())) out.push_back(item.as_double());
    if (out.size() != count || list.as_array().size() != count)
      return invalid(path(key) + " must be a list of " + std::to_string(count) + " numbers");
    return out;
  }
  Result<std::vector<int64_t>> integers(std::string_view key, size_t count) {
    const Json& list = take(key);
    std::vector<int64_t> out;
    for (const Json& item : list.as_array())
      if (item.is_int()) out.push_back(item.as_int());
    if (out.size() != count || list.as_array().size() != count)
      return invalid(path(key) + " must be a list of " + std::to_string(count) + " integers");
    return out;
  }
  Status no_others() const {
    for (const auto& [key, value] : object_.as_object())
      if (!taken_.count(key))
        return Error{Code::kUnsupported, "this stoker has no field \"" + path(key) + "\"", {}};
    return ok();
  }

 private:
  const Json& take_with(std::string_view key) {
    taken_.emplace(key);
    return object_;
  }
  std::string path(std::string_view key) const {
    return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
  }
  template <typename T>
  Result<T> at(Result<T> value) const {
    if (!value && !where_.empty()) return std::move(value).error().during(where_);
    return value;
  }

  const Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace stoker::pipeline
