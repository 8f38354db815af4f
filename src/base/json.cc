// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <boost/json/src.hpp>
// The order matters: the parser's template is no part of src.hpp.
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace stoker {
namespace {

// Builds a Json from what Boost.JSON's parser sees. Its own values would be off by a unit in the last place
// for some doubles (it has no exact reading of numbers before 1.83), and then a plan would not be the one
// that was written.
class Builder {
 public:
  static constexpr size_t max_object_size = SIZE_MAX, max_array_size = SIZE_MAX, max_key_size = SIZE_MAX,
                          max_string_size = SIZE_MAX;
  using Text = boost::json::string_view;
  using Failure = boost::json::error_code;

  Json take() { return std::move(done_); }

  bool on_document_begin(Failure&) { return true; }
  bool on_document_end(Failure&) { return true; }
  bool on_object_begin(Failure&) { return open(Json::Object{}); }
  bool on_object_end(size_t, Failure&) { return close(); }
  bool on_array_begin(Failure&) { return open(Json::Array{}); }
  bool on_array_end(size_t, Failure&) { return close(); }
  bool on_key_part(Text part, size_t, Failure&) { return part_of(part); }
  bool on_key(Text part, size_t, Failure&) {
    part_of(part);
    open_.back().key = std::exchange(text_, {});
    return true;
  }
  bool on_string_part(Text part, size_t, Failure&) { return part_of(part); }
  bool on_string(Text part, size_t, Failure&) {
    part_of(part);
    return value(std::exchange(text_, {}));
  }
  bool on_number_part(Text part, Failure&) { return part_of(part); }
  bool on_int64(int64_t number, Text, Failure&) { return number_is(number); }
  bool on_uint64(uint64_t number, Text, Failure&) { return number_is(static_cast<double>(number)); }
  bool on_double(double number, Text part, Failure& failure) {
    part_of(part);
    std::from_chars(text_.data(), text_.data() + text_.size(), number);  // out of range: as Boost has it
    // It could not be written again.
    if (!std::isfinite(number)) failure = boost::json::error::exponent_overflow;
    return std::isfinite(number) && number_is(number);
  }
  bool on_bool(bool is, Failure&) { return value(is); }
  bool on_null(Failure&) { return value(nullptr); }
  bool on_comment_part(Text, Failure&) { return true; }
  bool on_comment(Text, Failure&) { return true; }

 private:
  struct Open {
    Json json;
    std::string key;  // of the member whose value comes next
  };
  bool part_of(Text part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool number_is(Json number) {
    text_.clear();
    return value(std::move(number));
  }
  bool open(Json json) {
    open_.push_back({std::move(json), {}});
    return true;
  }
  bool close() {
    Json json = std::move(open_.back().json);
    open_.pop_back();
    return value(std::move(json));
  }
  bool value(Json json) {
    if (open_.empty())
      done_ = std::move(json);
    else if (open_.back().json.is_array())
      open_.back().json.push(std::move(json));
    else
      open_.back().json.set(std::move(open_.back().key), std::move(json));
    return true;
  }
  std::vector<Open> open_;
  std::string text_;
  Json done_;
};

void append_string(std::string& out, const std::string& text) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const size_t size = character_size(std::string_view(text).substr(at));
    if (size != 1) {
      out += size == 0 ? "\xef\xbf\xbd" : text.substr(at, size);
      at += std::max<size_t>(size, 1);
      continue;
    }
    ++at;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char escaped[8];
          snprintf(escaped, sizeof escaped, "\\u%04x", c);
          out += escaped;
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no infinities; as Python's and the browsers' strict writers do
    return;
  }
  char text[40];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  std::string_view written(text, end - text);
  out += written;
  if (written.find_first_of(".en") == std::string_view::npos) out += ".0";  // stays a double when read back
}

void append(std::string& out, const Json& json, int indent, int depth) {
  auto line = [&](int level) {
    if (indent > 0) out.append(1, '\n').append(static_cast<size_t>(indent * level), ' ');
  };
  if (json.is_null()) {
    out += "null";
  } else if (json.is_bool()) {
    out += json.as_bool() ? "true" : "false";
  } else if (json.is_int()) {
    out += std::to_string(json.as_int());
  } else if (json.is_number()) {
    append_double(out, json.as_double());
  } else if (json.is_string()) {
    append_string(out, json.as_string());
  } else if (json.is_array()) {
    out.push_back('[');
    bool first = true;
    for (const Json& item : json.as_array()) {
      if (!std::exchange(first, false)) out.push_back(',');
      line(depth + 1);
      append(out, item, indent, depth + 1);
    }
    if (!first) line(depth);
    out.push_back(']');
  } else {
    out.push_back('{');
    bool first = true;
    for (const auto& [key, value] : json.as_object()) {
      if (!std::exchange(first, false)) out.push_back(',');
      line(depth + 1);
      append_string(out, key);
      out += indent > 0 ? ": " : ":";
      append(out, value, indent, depth + 1);
    }
    if (!first) line(depth);
    out.push_back('}');
  }
}

const char* kind_of(const Json& json) {
  if (json.is_null()) return "nothing";
  if (json.is_bool()) return "a boolean";
  if (json.is_int()) return "an integer";
  if (json.is_number()) return "a number";
  if (json.is_string()) return "a string";
  return json.is_array() ? "an array" : "an object";
}

Error wanted(std::string_view key, const char* what, const Json& found) {
  return invalid("\"" + std::string(key) + "\" must be " + what + ", found " + kind_of(found));
}

}  // namespace

Result<Json> Json::parse(std::string_view text) {
  boost::json::error_code failure;
  boost::json::parse_options options;
  options.max_depth = 32;
  boost::json::basic_parser<Builder> parser(options);
  size_t read = parser.write_some(false, text.data(), text.size(), failure);
  if (!failure && read < text.size()) failure = boost::json::error::extra_data;
  if (failure) return invalid("not valid JSON: " + failure.message());
  return parser.handler().take();
}

std::string Json::dump() const {
  std::string out;
  append(out, *this, 0, 0);
  return out;
}

std::string Json::dump_pretty() const {
  std::string out;
  append(out, *this, 2, 0);
  return out;
}

bool Json::as_bool(bool otherwise) const {
  auto value = std::get_if<bool>(&value_);
  return value ? *value : otherwise;
}

int64_t Json::as_int(int64_t otherwise) const {
  if (auto value = std::get_if<int64_t>(&value_)) return *value;
  auto value = std::get_if<double>(&value_);
  return value && std::abs(*value) < 9e15 && std::floor(*value) == *value ? static_cast<int64_t>(*value)
                                                                          : otherwise;
}

double Json::as_double(double otherwise) const {
  if (auto value = std::get_if<double>(&value_)) return *value;
  auto value = std::get_if<int64_t>(&value_);
  return value ? static_cast<double>(*value) : otherwise;
}

const std::string& Json::as_string() const {
  static const std::string kEmpty;
  auto value = std::get_if<std::string>(&value_);
  return value ? *value : kEmpty;
}

const Json::Array& Json::as_array() const {
  static const Array kEmpty;
  auto value = std::get_if<Array>(&value_);
  return value ? *value : kEmpty;
}

const Json::Object& Json::as_object() const {
  static const Object kEmpty;
  auto value = std::get_if<Object>(&value_);
  return value ? *value : kEmpty;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json kNull;
  const Object& object = as_object();
  auto found = object.find(std::string(key));
  return found == object.end() ? kNull : found->second;
}

bool Json::has(std::string_view key) const { return as_object().count(std::string(key)) > 0; }

Json& Json::set(std::string key, Json value) {
  if (is_null()) value_ = Object{};
  std::get<Object>(value_).insert_or_assign(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json value) {
  if (is_null()) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

Result<std::string> Json::need_string(std::string_view key) const {
  const Json& found = (*this)[key];
  if (!found.is_string()) return wanted(key, "a string", found);
  return found.as_string();
}

Result<int64_t> Json::need_int(std::string_view key) const {
  const Json& found = (*this)[key];
  if (!found.is_int()) return wanted(key, "an integer", found);
  return found.as_int();
}

Result<double> Json::need_number(std::string_view key) const {
  const Json& found = (*this)[key];
  if (!found.is_number()) return wanted(key, "a number", found);
  return found.as_double();
}

}  // namespace stoker
