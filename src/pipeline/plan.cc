// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan.h"

#include "base/hash.h"
#include "pipeline/plan_fields.h"

namespace stoker::pipeline {
namespace {

Result<NativePlan> read_native(Fields& fields) {
  NativePlan plan;
  Fields source(fields.take("source"), "source");
  STOKER_ASSIGN(plan.source.kind, source.text("kind"));
  STOKER_ASSIGN(plan.source.root, source.text("root"));
  STOKER_ASSIGN(plan.source.manifest, source.text("manifest"));
  STOKER_ASSIGN(int64_t items, source.integer("items"));
  if (plan.source.kind == "tfrecord") {
    STOKER_ASSIGN(plan.source.picture, source.text("picture"));
    STOKER_ASSIGN(plan.source.label, source.text("label"));
  }
  if (plan.source.has_masks()) {
    STOKER_ASSIGN(std::string mask, source.text("mask"));
    if (mask != "uint8" && mask != "int64") return invalid("source.mask must be \"uint8\" or \"int64\"");
    plan.source.mask = mask == "uint8" ? DType::kUint8 : DType::kInt64;
  }
  STOKER_TRY(source.no_others());
  plan.source.items = static_cast<uint64_t>(items);

  STOKER_ASSIGN(plan.ops, read_ops(fields.take("ops"), "ops"));
  STOKER_ASSIGN(std::string output, fields.text("output"));
  if (output != "float32" && output != "uint8")
    return invalid("output must be \"uint8\" or \"float32\", found \"" + output + "\"");
  plan.float_output = output == "float32";
  if (!fields.peek("on_error").is_null()) {
    STOKER_ASSIGN(std::string on_error, fields.text("on_error"));
    if (on_error != "skip" && on_error != "substitute")
      return invalid("on_error must be \"skip\" or \"substitute\", found \"" + on_error + "\"");
    plan.on_error = on_error == "skip" ? OnError::kSkip : OnError::kSubstitute;
  }
  return plan;
}

Status check_source(const ImageSource& source) {
  if (source.kind != "image_folder" && source.kind != "files" && source.kind != "members" &&
      source.kind != "tfrecord" && source.kind != "pairs")
    return Error{Code::kUnsupported, "source: this stoker has no kind \"" + source.kind + "\"", {}};
  if (source.root.empty() || source.root[0] != '/' || source.root.find('\0') != std::string::npos)
    return invalid("source.root must be an absolute path");
  if (!is_sha256_hex(source.manifest)) return invalid("source.manifest must be 64 lower-case hex digits");
  if (source.items > uint64_t{1} << 48) return invalid("source.items is out of range");
  if (source.kind == "tfrecord" && source.picture.empty())
    return invalid("source.picture must name a feature");
  return ok();
}

Status check_body(const NativePlan& plan) {
  if (plan.ops.size() > kMaxOps) return invalid("ops: more than " + std::to_string(kMaxOps));
  STOKER_ASSIGN(Known known, check_ops(plan.ops));
  if (known.is_float != plan.float_output)
    return invalid(std::string("output must be \"") + (known.is_float ? "float32" : "uint8") +
                   "\" for these ops");
  return ok();
}

Json write_native(const NativePlan& plan) {
  Json out;
  Json source;
  source.set("kind", plan.source.kind).set("root", plan.source.root).set("manifest", plan.source.manifest);
  source.set("items", plan.source.items);
  if (plan.source.kind == "tfrecord")
    source.set("picture", plan.source.picture).set("label", plan.source.label);
  if (plan.source.has_masks()) source.set("mask", dtype_name(plan.source.mask));
  out.set("source", source);
  out.set("ops", write_ops(plan.ops)).set("output", plan.float_output ? "float32" : "uint8");
  if (plan.on_error != OnError::kRaise)
    out.set("on_error", plan.on_error == OnError::kSkip ? "skip" : "substitute");
  return out;
}

Result<PythonPlan> read_python(Fields& fields) {
  PythonPlan plan;
  STOKER_ASSIGN(plan.name, fields.text("name"));
  STOKER_ASSIGN(plan.code, fields.text("code"));
  STOKER_ASSIGN(plan.version, fields.text("version"));
  STOKER_ASSIGN(plan.collate, fields.text("collate"));
  STOKER_ASSIGN(int64_t items, fields.integer("items"));
  if (items < 0) return invalid("items must not be negative");
  plan.items = static_cast<uint64_t>(items);
  return plan;
}

Json write_python(const PythonPlan& plan) {
  Json out;
  out.set("name", plan.name).set("code", plan.code).set("version", plan.version).set("collate", plan.collate);
  out.set("items", plan.items);
  return out;
}

Status check_libraries_shape(const Json& libraries) {
  if (!libraries.is_object()) return invalid("libraries must be an object");
  if (libraries.as_object().size() > 64) return invalid("libraries: more than 64");
  for (const auto& [name, version] : libraries.as_object())
    if (!version.is_string()) return invalid("libraries." + name + " must be a string");
  return ok();
}

}  // namespace

Result<Plan> Plan::parse(std::string_view text) {
  if (text.size() > kMaxPlanBytes)
    return invalid("plan: larger than " + std::to_string(kMaxPlanBytes) + " bytes");
  auto read = [&]() -> Result<Plan> {
    STOKER_ASSIGN(Json json, Json::parse(text));
    if (!json.is_object()) return invalid("must be an object");
    Fields fields(json, "");
    STOKER_ASSIGN(std::string format, fields.text("format"));
    if (format != kPlanFormat)
      return Error{
          Code::kUnsupported, "format \"" + format + "\"; this stoker reads " + std::string(kPlanFormat), {}};
    STOKER_ASSIGN(std::string kind, fields.text("kind"));
    STOKER_ASSIGN(int64_t seed, fields.integer("seed"));
    if (seed < 0) return invalid("seed must be in [0, 2^63)");
    Json libraries = fields.take("libraries");
    if (kind == "native") {
      STOKER_ASSIGN(NativePlan plan, read_native(fields));
      STOKER_TRY(fields.no_others());
      return make_native(std::move(plan), static_cast<uint64_t>(seed), std::move(libraries));
    }
    if (kind == "arrays") {
      STOKER_ASSIGN(ArrayPlan plan, read_array_plan(fields));
      STOKER_TRY(fields.no_others());
      return make_arrays(std::move(plan), static_cast<uint64_t>(seed), std::move(libraries));
    }
    if (kind == "python") {
      STOKER_ASSIGN(PythonPlan plan, read_python(fields));
      STOKER_TRY(fields.no_others());
      return make_python(std::move(plan), static_cast<uint64_t>(seed), std::move(libraries));
    }
    return Error{Code::kUnsupported, "this stoker has no kind \"" + kind + "\"", {}};
  };
  auto plan = read();
  if (!plan) return std::move(plan).error().during("plan");
  return plan;
}

Result<Plan> Plan::seal(Json body, const char* kind) {
  STOKER_TRY(check_libraries_shape(libraries_));
  if (seed_ >> 63) return invalid("seed must be in [0, 2^63)");
  body.set("format", std::string(kPlanFormat))
      .set("kind", kind)
      .set("seed", seed_)
      .set("libraries", libraries_);
  json_ = body.dump();
  if (json_.size() > kMaxPlanBytes)
    return invalid("plan: larger than " + std::to_string(kMaxPlanBytes) + " bytes");
  if (is_native()) body.set("source", Json(body["source"]).set("root", ""));
  hash_ = sha256_hex(as_bytes(body.dump()));
  return std::move(*this);
}

Result<Plan> Plan::make_native(NativePlan body, uint64_t seed, Json libraries) {
  STOKER_TRY(check_source(body.source));
  STOKER_TRY(check_body(body));
  Json json = write_native(body);
  return Plan(std::move(body), seed, std::move(libraries)).seal(std::move(json), "native");
}

Result<Plan> Plan::make_arrays(ArrayPlan body, uint64_t seed, Json libraries) {
  STOKER_TRY(check_array_plan(body));
  Json json = write_array_plan(body);
  return Plan(std::move(body), seed, std::move(libraries)).seal(std::move(json), "arrays");
}

Result<Plan> Plan::make_python(PythonPlan body, uint64_t seed, Json libraries) {
  Json json = write_python(body);
  return Plan(std::move(body), seed, std::move(libraries)).seal(std::move(json), "python");
}

uint64_t Plan::items() const {
  if (is_arrays()) return arrays().items;
  return is_native() ? native().source.items : python().items;
}

}  // namespace stoker::pipeline
