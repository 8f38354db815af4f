// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan.h"

#include <cmath>

#include "base/hash.h"
#include "pipeline/plan_fields.h"

namespace stoker::pipeline {
namespace {

constexpr size_t kMaxOps = 32;
constexpr int64_t kMaxSide = 65535;
constexpr int64_t kMaxPicture = int64_t{1} << 26;

constexpr std::pair<const char*, ToFloat::Rule> kToFloatRules[] = {
    {"v1", ToFloat::kV1}, {"v2", ToFloat::kV2}, {"unscaled", ToFloat::kUnscaled}};

Status positive_sides(int64_t height, int64_t width, const std::string& where) {
  if (height < 1 || width < 1 || height > kMaxSide || width > kMaxSide)
    return invalid(where + ".size: sides must be in [1, " + std::to_string(kMaxSide) + "]");
  if (height * width > kMaxPicture)
    return invalid(where + ".size: more than " + std::to_string(kMaxPicture) + " pixels");
  return ok();
}

// ---- one reader and one writer per op

Result<Op> read_crop_resize(Fields& fields) {
  RandomResizedCrop op;
  STOKER_ASSIGN(auto size, fields.integers("size", 2));
  STOKER_TRY(positive_sides(size[0], size[1], fields.where()));
  STOKER_ASSIGN(auto scale, fields.numbers("scale", 2));
  STOKER_ASSIGN(auto ratio, fields.numbers("ratio", 2));
  if (!(scale[0] >= 0 && scale[0] <= scale[1] && scale[1] <= 1e6))
    return invalid(fields.where() + ".scale must be [low, high] with 0 <= low <= high");
  if (!(ratio[0] >= 1e-6 && ratio[0] <= ratio[1] && ratio[1] <= 1e6))
    return invalid(fields.where() + ".ratio must be [low, high] with 0 < low <= high");
  op.height = size[0], op.width = size[1];
  op.scale[0] = scale[0], op.scale[1] = scale[1];
  op.ratio[0] = ratio[0], op.ratio[1] = ratio[1];
  return Op(op);
}

Result<Op> read_resize(Fields& fields) {
  Resize op;
  if (fields.peek("size").is_array()) {
    STOKER_ASSIGN(auto size, fields.integers("size", 2));
    STOKER_TRY(positive_sides(size[0], size[1], fields.where()));
    op.height = size[0], op.width = size[1];
  } else {
    STOKER_ASSIGN(op.short_side, fields.integer("size"));
    STOKER_TRY(positive_sides(op.short_side, 1, fields.where()));
  }
  return Op(op);
}

Result<Op> read_center_crop(Fields& fields) {
  STOKER_ASSIGN(auto size, fields.integers("size", 2));
  STOKER_TRY(positive_sides(size[0], size[1], fields.where()));
  return Op(CenterCrop{size[0], size[1]});
}

Result<Op> read_flip(Fields& fields) {
  STOKER_ASSIGN(double p, fields.number("p"));
  if (!(p >= 0 && p <= 1)) return invalid(fields.where() + ".p must be in [0, 1]");
  return Op(HorizontalFlip{p});
}

Result<Op> read_to_float(Fields& fields) {
  STOKER_ASSIGN(std::string rule, fields.text("rule"));
  for (auto [name, value] : kToFloatRules)
    if (rule == name) return Op(ToFloat{value});
  return invalid(fields.where() + ".rule must be \"v1\", \"v2\" or \"unscaled\", found \"" + rule + "\"");
}

Result<Op> read_normalize(Fields& fields) {
  STOKER_ASSIGN(auto mean, fields.numbers("mean", 3));
  STOKER_ASSIGN(auto std, fields.numbers("std", 3));
  for (double deviation : std)
    if (static_cast<float>(deviation) == 0.0f) return invalid(fields.where() + ".std must not be zero");
  return Op(Normalize{mean, std});
}

Result<Op> read_op(const Json& json, const std::string& where) {
  Fields fields(json, where);
  STOKER_ASSIGN(std::string name, fields.text("op"));
  auto read = [&]() -> Result<Op> {
    if (name == "decode_rgb") return Op(DecodeRgb{});
    if (name == "random_resized_crop") return read_crop_resize(fields);
    if (name == "resize") return read_resize(fields);
    if (name == "center_crop") return read_center_crop(fields);
    if (name == "horizontal_flip") return read_flip(fields);
    if (name == "to_float") return read_to_float(fields);
    if (name == "normalize") return read_normalize(fields);
    return Error{Code::kUnsupported, where + ": this stoker has no op \"" + name + "\"", {}};
  };
  STOKER_ASSIGN(Op op, read());
  STOKER_TRY(fields.no_others());
  return op;
}

template <typename... Values>
Json list(Values... values) {
  return Json(Json::Array{Json(values)...});
}
Json list_of(const std::vector<double>& values) { return Json(Json::Array(values.begin(), values.end())); }

struct WriteOp {
  Json& out;
  void operator()(const DecodeRgb&) {}
  void operator()(const RandomResizedCrop& op) {
    out.set("size", list(op.height, op.width));
    out.set("scale", list(op.scale[0], op.scale[1]));
    out.set("ratio", list(op.ratio[0], op.ratio[1]));
  }
  void operator()(const Resize& op) {
    out.set("size", op.short_side ? Json(op.short_side) : list(op.height, op.width));
  }
  void operator()(const CenterCrop& op) { out.set("size", list(op.height, op.width)); }
  void operator()(const HorizontalFlip& op) { out.set("p", op.p); }
  void operator()(const ToFloat& op) { out.set("rule", kToFloatRules[op.rule].first); }
  void operator()(const Normalize& op) {
    out.set("mean", list_of(op.mean));
    out.set("std", list_of(op.std));
  }
};

// ---- whole plans

bool geometric(const Op& op) {
  return std::holds_alternative<RandomResizedCrop>(op) || std::holds_alternative<Resize>(op) ||
         std::holds_alternative<CenterCrop>(op) || std::holds_alternative<HorizontalFlip>(op);
}

// The ops must stand in an order that has a meaning, and fix the size of what comes out.
Status check_ops(const std::vector<Op>& ops, bool float_output) {
  if (ops.size() > kMaxOps) return invalid("ops: more than " + std::to_string(kMaxOps));
  if (ops.empty() || !std::holds_alternative<DecodeRgb>(ops[0])) return invalid("ops[0] must be decode_rgb");
  size_t at = 1;
  bool fixed_size = false;
  for (; at < ops.size() && geometric(ops[at]); ++at) {
    if (auto resize = std::get_if<Resize>(&ops[at])) {
      fixed_size = resize->short_side == 0;
    } else if (!std::holds_alternative<HorizontalFlip>(ops[at])) {
      fixed_size = true;
    }
  }
  bool has_float = at < ops.size() && std::holds_alternative<ToFloat>(ops[at]);
  if (has_float) ++at;
  if (has_float && at < ops.size() && std::holds_alternative<Normalize>(ops[at])) ++at;
  if (at < ops.size()) {
    return invalid("ops[" + std::to_string(at) + "]: " + op_name(ops[at]) +
                   " may not stand here; the order is decode_rgb, geometric ops, to_float, normalize");
  }
  if (!fixed_size) {
    return Error{
        Code::kUnsupported,
        "ops: they leave the picture's size open, and rows have a fixed shape; end in random_resized_crop, "
        "center_crop or a resize to [height, width]",
        {}};
  }
  if (has_float != float_output)
    return invalid(std::string("output must be \"") + (has_float ? "float32" : "uint8") + "\" for these ops");
  return ok();
}

Result<NativePlan> read_native(Fields& fields) {
  NativePlan plan;
  Fields source(fields.take("source"), "source");
  STOKER_ASSIGN(plan.source.kind, source.text("kind"));
  STOKER_ASSIGN(plan.source.root, source.text("root"));
  STOKER_ASSIGN(plan.source.manifest, source.text("manifest"));
  STOKER_ASSIGN(int64_t items, source.integer("items"));
  STOKER_TRY(source.no_others());
  plan.source.items = static_cast<uint64_t>(items);

  const Json& ops = fields.take("ops");
  if (!ops.is_array()) return invalid("ops must be an array");
  for (size_t i = 0; i < ops.as_array().size() && i <= kMaxOps; ++i) {
    STOKER_ASSIGN(Op op, read_op(ops.as_array()[i], "ops[" + std::to_string(i) + "]"));
    plan.ops.push_back(std::move(op));
  }
  STOKER_ASSIGN(std::string output, fields.text("output"));
  if (output != "float32" && output != "uint8")
    return invalid("output must be \"uint8\" or \"float32\", found \"" + output + "\"");
  plan.float_output = output == "float32";
  return plan;
}

Status check_source(const ImageSource& source) {
  if (source.kind != "image_folder" && source.kind != "files")
    return Error{Code::kUnsupported, "source: this stoker has no kind \"" + source.kind + "\"", {}};
  if (source.root.empty() || source.root[0] != '/' || source.root.find('\0') != std::string::npos)
    return invalid("source.root must be an absolute path");
  if (!is_sha256_hex(source.manifest)) return invalid("source.manifest must be 64 lower-case hex digits");
  if (source.items > uint64_t{1} << 48) return invalid("source.items is out of range");
  return ok();
}

Json write_native(const NativePlan& plan) {
  Json out;
  Json source;
  source.set("kind", plan.source.kind).set("root", plan.source.root).set("manifest", plan.source.manifest);
  source.set("items", plan.source.items);
  out.set("source", source);
  Json ops{Json::Array{}};
  for (const Op& op : plan.ops) {
    Json one;
    one.set("op", op_name(op));
    std::visit(WriteOp{one}, op);
    ops.push(one);
  }
  out.set("ops", ops).set("output", plan.float_output ? "float32" : "uint8");
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

const char* op_name(const Op& op) {
  static constexpr const char* kNames[] = {"decode_rgb",  "random_resized_crop", "resize",
                                           "center_crop", "horizontal_flip",     "to_float",
                                           "normalize"};
  static_assert(std::size(kNames) == std::variant_size_v<Op>);
  return kNames[op.index()];
}

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
  hash_ = sha256_hex(as_bytes(json_));
  return std::move(*this);
}

Result<Plan> Plan::make_native(NativePlan body, uint64_t seed, Json libraries) {
  STOKER_TRY(check_source(body.source));
  STOKER_TRY(check_ops(body.ops, body.float_output));
  Plan plan;
  plan.seed_ = seed;
  plan.libraries_ = std::move(libraries);
  Json json = write_native(body);
  plan.body_ = std::move(body);
  return std::move(plan).seal(std::move(json), "native");
}

Result<Plan> Plan::make_python(PythonPlan body, uint64_t seed, Json libraries) {
  Plan plan;
  plan.seed_ = seed;
  plan.libraries_ = std::move(libraries);
  Json json = write_python(body);
  plan.body_ = std::move(body);
  return std::move(plan).seal(std::move(json), "python");
}

uint64_t Plan::items() const { return is_native() ? native().source.items : python().items; }

}  // namespace stoker::pipeline
