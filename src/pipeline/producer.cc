// SPDX-License-Identifier: Apache-2.0
#include "pipeline/producer.h"

#include <algorithm>

namespace stoker::pipeline {

namespace {

struct Described {
  DType dtype;
  const char* name;
  std::string_view code;  // NumPy's, without its byte order
  uint64_t size;
};
constexpr Described kDTypes[] = {
    {DType::kUint8, "uint8", "u1", 1},     {DType::kInt64, "int64", "i8", 8},
    {DType::kFloat32, "float32", "f4", 4}, {DType::kBool, "bool", "b1", 1},
    {DType::kInt8, "int8", "i1", 1},       {DType::kInt16, "int16", "i2", 2},
    {DType::kUint16, "uint16", "u2", 2},   {DType::kInt32, "int32", "i4", 4},
    {DType::kUint32, "uint32", "u4", 4},   {DType::kUint64, "uint64", "u8", 8},
    {DType::kFloat16, "float16", "f2", 2}, {DType::kFloat64, "float64", "f8", 8},
};

const Described& described(DType dtype) {
  const Described& found = kDTypes[static_cast<size_t>(dtype)];
  CHECK(found.dtype == dtype);
  return found;
}

}  // namespace

const char* dtype_name(DType dtype) { return described(dtype).name; }
uint64_t dtype_size(DType dtype) { return described(dtype).size; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const Described& one : kDTypes)
    if (name == one.name) return one.dtype;
  return {};
}

std::optional<DType> dtype_of_numpy(std::string_view code) {
  for (const Described& one : kDTypes)
    if (code.size() == 3 && code.substr(1) == one.code &&
        (code[0] == '<' || (code[0] == '|' && one.size == 1)))
      return one.dtype;
  return {};
}

uint64_t RowLayout::row_bytes() const {
  uint64_t sum = 0;
  for (const Leaf& leaf : leaves) sum += leaf.row_bytes;
  return sum;
}

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  samples += other.samples;
  read_bytes += other.read_bytes;
  skipped += other.skipped;
  substituted += other.substituted;
  other_formats += other.other_formats;
  busy_ns += other.busy_ns;
  timed += other.timed;
  read_ns += other.read_ns;
  decode_ns += other.decode_ns;
  pass_ns += other.pass_ns;
  hash_ns += other.hash_ns;
  for (size_t i = 0; i < kOps; ++i) op_ns[i] += other.op_ns[i];
  return *this;
}

Json to_json(const StageTimes& times, const Producer& producer) {
  double scale =
      1e-9 * static_cast<double>(times.samples) / static_cast<double>(std::max<uint64_t>(1, times.timed));
  Json stages{Json::Array{}};
  auto add = [&](std::string name, uint64_t ns) {
    stages.push(Json().set("name", std::move(name)).set("cpu_s", static_cast<double>(ns) * scale));
  };
  Producer::OpNames names = producer.ops();
  add("read", times.read_ns);
  if (!names.pass.empty()) {
    add("decode", times.decode_ns);
    add(names.pass, times.pass_ns);
  }
  for (size_t i = 0; i < std::min(names.ops.size(), StageTimes::kOps); ++i)
    if (!names.ops[i].empty()) add(names.ops[i], times.op_ns[i]);
  add("hash", times.hash_ns);
  return Json()
      .set("samples", times.samples)
      .set("skipped", times.skipped)
      .set("substituted", times.substituted)
      .set("other_formats", times.other_formats)
      .set("read_bytes", times.read_bytes)
      .set("made_bytes", times.samples * producer.layout().row_bytes())
      .set("busy_s", static_cast<double>(times.busy_ns) * 1e-9)
      .set("stages", std::move(stages));
}

}  // namespace stoker::pipeline
