// SPDX-License-Identifier: Apache-2.0
// The two visitors of op_fields.h: one takes an op's fields from JSON and checks them, one writes them. Only
// for ops.cc. Confined.
#pragma once

#include <algorithm>

#include "pipeline/op_fields.h"
#include "pipeline/plan_fields.h"

namespace stoker::pipeline {

inline constexpr int64_t kMaxPicture = int64_t{1} << 26;
inline constexpr size_t kMaxMagnitudes = 256;
inline constexpr int kMaxDepth = 6;         // of containers
inline constexpr size_t kMaxBranches = 64;  // of one container, and ops of a branch

// Keeps the first error; what is read after it does not matter.
class OpReader {
 public:
  OpReader(Fields& fields, int depth) : fields_(fields), depth_(depth) {}
  Status status() { return std::move(status_); }

  void number(const char* key, double& value, double low, double high) {
    if (!take(fields_.number(key), value)) return;
    if (!(value >= low && value <= high)) refuse(key, "must be in " + span(low, high));
  }
  void integer(const char* key, int64_t& value, int64_t low, int64_t high) {
    if (!take(fields_.integer(key), value)) return;
    if (value < low || value > high) refuse(key, "must be in " + span(low, high));
  }
  void integer_or_absent(const char* key, int64_t& value, int64_t low, int64_t high, int64_t absent) {
    if (is_absent(key)) return void(value = absent);
    integer(key, value, low, high);
  }
  template <size_t N>
  void integers(const char* key, std::array<int64_t, N>& values, int64_t low, int64_t high) {
    std::vector<int64_t> list;
    if (!take(fields_.integers(key, N), list)) return;
    std::copy(list.begin(), list.end(), values.begin());
    for (int64_t value : values)
      if (value < low || value > high) refuse(key, "must be in " + span(low, high));
  }
  template <size_t N>
  void integers_or_absent(const char* key, std::array<int64_t, N>& values, int64_t low, int64_t high) {
    if (!is_absent(key)) integers(key, values, low, high);
  }
  void flag_or_absent(const char* key, bool& value) {
    if (is_absent(key)) return;
    const Json& flag = fields_.take(key);
    if (!flag.is_bool()) return refuse(key, "must be true or false");
    value = flag.as_bool();
  }
  void range(const char* key, std::array<double, 2>& value, double low, double high) {
    std::vector<double> pair;
    if (!take(fields_.numbers(key, 2), pair)) return;
    value = {pair[0], pair[1]};
    if (!(pair[0] >= low && pair[0] <= pair[1] && pair[1] <= high))
      refuse(key, "must be [low, high], low <= high, in " + span(low, high));
  }
  template <size_t N>
  void numbers_or_absent(const char* key, std::array<double, N>& values, const std::array<double, N>& absent,
                         double low, double high) {
    values = absent;
    if (is_absent(key)) return;
    std::vector<double> list;
    if (!take(fields_.numbers(key, N), list)) return;
    std::copy(list.begin(), list.end(), values.begin());
    check_each(key, list, low, high);
  }
  void numbers_or_absent(const char* key, std::optional<std::array<double, 2>>& values, double low,
                         double high) {
    if (is_absent(key)) return;
    values.emplace();
    numbers_or_absent(key, *values, {}, low, high);
  }
  void list_or_absent(const char* key, std::vector<double>& values, double low, double high) {
    if (is_absent(key)) return;
    size_t count = fields_.peek(key).as_array().size();
    if (count == 0 || count > kMaxMagnitudes)
      return refuse(key, "must be a list of 1 to " + std::to_string(kMaxMagnitudes) + " numbers");
    if (take(fields_.numbers(key, count), values)) check_each(key, values, low, high);
  }
  void range_or_absent(const char* key, ColorJitter::Range& value, double low, double high) {
    if (is_absent(key)) return;
    value.emplace();
    range(key, *value, low, high);
  }
  void size(const char* key, int64_t& height, int64_t& width) {
    std::vector<int64_t> pair;
    if (!take(fields_.integers(key, 2), pair)) return;
    height = pair[0], width = pair[1];
    if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide)
      return refuse(key, "sides must be in " + span(1, kMaxSide));
    if (height * width > kMaxPicture) refuse(key, "more than " + std::to_string(kMaxPicture) + " pixels");
  }
  void side_or_size(const char* key, int64_t& side, int64_t& height, int64_t& width) {
    if (fields_.peek(key).is_array()) return size(key, height, width);
    if (is_absent(key) && !is_absent("max_size")) return;
    integer(key, side, 1, kMaxSide);
  }
  void colour_or_absent(const char* key, std::array<uint8_t, 3>& colour) {
    std::array<int64_t, 3> values{};
    integers_or_absent(key, values, 0, 255);
    for (size_t c = 0; c < 3; ++c) colour[c] = static_cast<uint8_t>(values[c]);
  }
  void per_channel(const char* key, std::vector<double>& values) {
    size_t count = fields_.peek(key).as_array().size() == 1 ? 1 : 3;
    take(fields_.numbers(key, count), values);
  }
  void per_channel_or_absent(const char* key, std::vector<double>& values) {
    if (!is_absent(key)) per_channel(key, values);
  }
  void divisors(const char* key, std::vector<double>& values) {
    per_channel(key, values);
    for (double value : values)
      if (static_cast<float>(value) == 0.0f) refuse(key, "must not be zero");
  }
  void weights(const char* key, std::vector<double>& values, size_t count) {
    if (!take(fields_.numbers(key, count), values)) return;
    double sum = 0;
    for (double value : values) {
      if (value < 0) refuse(key, "must not be negative");
      sum += value;
    }
    if (!(sum > 0 && sum < 1e300)) refuse(key, "must have a positive, finite sum");
  }
  template <typename Enum, size_t N>
  void one_of(const char* key, Enum& value, const Names<Enum> (&names)[N]) {
    std::string text;
    if (!take(fields_.text(key), text)) return;
    std::string known;
    for (auto [name, meaning] : names) {
      if (text == name) return void(value = meaning);
      known += std::string(known.empty() ? "\"" : ", \"") + name + "\"";
    }
    refuse(key, "must be one of " + known + ", found \"" + text + "\"");
  }
  template <typename Enum, size_t N>
  void one_of_or_absent(const char* key, Enum& value, const Names<Enum> (&names)[N], Enum absent) {
    if (is_absent(key)) return void(value = absent);
    one_of(key, value, names);
  }
  void ops(const char* key, Ops& ops) { read_list(fields_.take(key), key, ops); }
  void branches(const char* key, std::vector<Ops>& branches) {
    const Json& lists = fields_.take(key);
    size_t count = lists.as_array().size();
    if (count == 0 || count > kMaxBranches)
      return refuse(key, "must be a list of 1 to " + std::to_string(kMaxBranches) + " lists of ops");
    branches.resize(count);
    for (size_t i = 0; i < count; ++i)
      read_list(lists.as_array()[i], std::string(key) + "[" + std::to_string(i) + "]", branches[i]);
  }

 private:
  bool is_absent(const char* key) const { return fields_.peek(key).is_null(); }
  void read_list(const Json& list, const std::string& key, Ops& ops) {
    if (!list.is_array() || list.as_array().size() > kMaxBranches)
      return refuse(key, "must be a list of at most " + std::to_string(kMaxBranches) + " ops");
    if (depth_ >= kMaxDepth)
      return refuse(key, "more than " + std::to_string(kMaxDepth) + " containers in each other");
    for (size_t i = 0; i < list.as_array().size(); ++i) {
      std::optional<Op> op;
      auto read = read_op(list.as_array()[i], fields_.where() + "." + key + "[" + std::to_string(i) + "]",
                          depth_ + 1);
      if (!status_.ok()) return;
      if (!read) return void(status_ = std::move(read).error());
      ops.push_back(*std::move(read));
    }
  }
  template <typename T>
  bool take(Result<T> read, T& value) {
    if (!status_.ok()) return false;
    if (!read) {
      status_ = std::move(read).error();
      return false;
    }
    value = *std::move(read);
    return true;
  }
  void check_each(const char* key, const std::vector<double>& values, double low, double high) {
    for (double value : values)
      if (!(value >= low && value <= high)) refuse(key, "must be in " + span(low, high));
  }
  void refuse(const std::string& key, const std::string& why) {
    if (status_.ok()) status_ = invalid(fields_.where() + "." + key + ": " + why);
  }
  static std::string span(double low, double high) {
    return "[" + Json(low).dump() + ", " + Json(high).dump() + "]";
  }

  Fields& fields_;
  int depth_;
  Status status_ = ok();
};

class OpWriter {
 public:
  explicit OpWriter(Json& out) : out_(out) {}
  void number(const char* key, double value, double, double) { out_.set(key, value); }
  void integer(const char* key, int64_t value, int64_t, int64_t) { out_.set(key, value); }
  void integer_or_absent(const char* key, int64_t value, int64_t, int64_t, int64_t absent) {
    if (value != absent) out_.set(key, value);
  }
  template <typename List>
  void integers(const char* key, const List& values, int64_t, int64_t) {
    out_.set(key, list(values));
  }
  template <size_t N>
  void integers_or_absent(const char* key, const std::array<int64_t, N>& values, int64_t, int64_t) {
    if (values != std::array<int64_t, N>{}) out_.set(key, list(values));
  }
  void flag_or_absent(const char* key, bool value) {
    if (value) out_.set(key, true);
  }
  void range(const char* key, const std::array<double, 2>& value, double, double) {
    out_.set(key, list(value));
  }
  template <size_t N>
  void numbers_or_absent(const char* key, const std::array<double, N>& values,
                         const std::array<double, N>& absent, double, double) {
    if (values != absent) out_.set(key, list(values));
  }
  void numbers_or_absent(const char* key, const std::optional<std::array<double, 2>>& values, double,
                         double) {
    if (values) out_.set(key, list(*values));
  }
  void list_or_absent(const char* key, const std::vector<double>& values, double, double) {
    if (!values.empty()) out_.set(key, list(values));
  }
  void range_or_absent(const char* key, const ColorJitter::Range& value, double, double) {
    if (value) out_.set(key, list(*value));
  }
  void size(const char* key, int64_t height, int64_t width) {
    out_.set(key, Json(Json::Array{Json(height), Json(width)}));
  }
  void side_or_size(const char* key, int64_t side, int64_t height, int64_t width) {
    if (height != 0) return size(key, height, width);
    if (side != 0) out_.set(key, side);
  }
  void colour_or_absent(const char* key, const std::array<uint8_t, 3>& colour) {
    std::array<int64_t, 3> values{colour[0], colour[1], colour[2]};
    integers_or_absent(key, values, 0, 255);
  }
  void per_channel(const char* key, const std::vector<double>& values) { out_.set(key, list(values)); }
  void per_channel_or_absent(const char* key, const std::vector<double>& values) {
    if (!values.empty()) per_channel(key, values);
  }
  void divisors(const char* key, const std::vector<double>& values) { per_channel(key, values); }
  void weights(const char* key, const std::vector<double>& values, size_t) { per_channel(key, values); }
  template <typename Enum, size_t N>
  void one_of(const char* key, Enum value, const Names<Enum> (&names)[N]) {
    for (auto [name, meaning] : names)
      if (meaning == value) out_.set(key, name);
  }
  template <typename Enum, size_t N>
  void one_of_or_absent(const char* key, Enum value, const Names<Enum> (&names)[N], Enum absent) {
    if (value != absent) one_of(key, value, names);
  }
  void ops(const char* key, const Ops& ops) { out_.set(key, list_of(ops)); }
  void branches(const char* key, const std::vector<Ops>& branches) {
    Json lists{Json::Array{}};
    for (const Ops& ops : branches) lists.push(list_of(ops));
    out_.set(key, std::move(lists));
  }

 private:
  template <typename List>
  static Json list(const List& values) {
    return Json(Json::Array(values.begin(), values.end()));
  }
  static Json list_of(const Ops& ops) {
    Json list{Json::Array{}};
    for (const Op& op : ops) list.push(write_op(op));
    return list;
  }
  Json& out_;
};

}  // namespace stoker::pipeline
