// SPDX-License-Identifier: Apache-2.0
// Json: a value, with objects kept in key order, so that dump() is canonical: the same value has the same
// bytes. Integers are 64 bits and stay integers; doubles print in the shortest form that reads back equal.
// Parsing is Boost.JSON's, limited in depth (32) and taking UTF-8 only; what is dumped is UTF-8 too, with
// U+FFFD for bytes that are not (a file's name, a text that was cut). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stoker {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json>;

  Json() = default;
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(unsigned value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(uint64_t value) : value_(static_cast<int64_t>(value)) {}
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  static Result<Json> parse(std::string_view text);
  std::string dump() const;         // canonical: no spaces, keys sorted
  std::string dump_pretty() const;  // two spaces, for people

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // What the value is, or the given default where it is of another kind.
  bool as_bool(bool otherwise = false) const;
  int64_t as_int(int64_t otherwise = 0) const;
  double as_double(double otherwise = 0) const;
  const std::string& as_string() const;  // "" otherwise
  const Array& as_array() const;         // empty otherwise
  const Object& as_object() const;       // empty otherwise

  // Member of an object; null where there is none.
  const Json& operator[](std::string_view key) const;
  bool has(std::string_view key) const;
  // Makes the value an object (array) if it was null.
  Json& set(std::string key, Json value);
  Json& push(Json value);

  bool operator==(const Json&) const = default;

  // For input from outside: the member, or an error naming the path, what was wanted and what was there.
  Result<std::string> need_string(std::string_view key) const;
  Result<int64_t> need_int(std::string_view key) const;
  Result<double> need_number(std::string_view key) const;

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value_ = nullptr;
};

}  // namespace stoker
