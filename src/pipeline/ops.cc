// SPDX-License-Identifier: Apache-2.0
#include "pipeline/ops.h"

#include "pipeline/op_reader.h"

namespace stoker::pipeline {
namespace {

constexpr const char* kNames[] = {"decode_rgb",
                                  "random_resized_crop",
                                  "resize",
                                  "center_crop",
                                  "pad",
                                  "random_crop",
                                  "horizontal_flip",
                                  "vertical_flip",
                                  "random_rotation",
                                  "random_affine",
                                  "random_perspective",
                                  "grayscale",
                                  "adjust",
                                  "color_jitter",
                                  "augment",
                                  "gaussian_blur",
                                  "to_float",
                                  "normalize",
                                  "random_erasing",
                                  "random_apply",
                                  "random_choice",
                                  "random_order"};
static_assert(std::size(kNames) == std::variant_size_v<Op::variant>);

// An op with nothing set, by its name.
template <size_t I = 0>
std::optional<Op> blank(std::string_view name) {
  if constexpr (I == std::variant_size_v<Op::variant>) {
    return std::nullopt;
  } else {
    return name == kNames[I] ? Op(std::in_place_index<I>) : blank<I + 1>(name);
  }
}

}  // namespace

bool operator==(const RandomApply& a, const RandomApply& b) { return a.p == b.p && a.ops == b.ops; }
bool operator==(const RandomChoice& a, const RandomChoice& b) {
  return a.weights == b.weights && a.branches == b.branches;
}
bool operator==(const RandomOrder& a, const RandomOrder& b) { return a.branches == b.branches; }

const char* op_name(const Op& op) { return kNames[op.index()]; }

Result<Op> read_op(const Json& json, const std::string& where, int depth) {
  Fields fields(json, where);
  STOKER_ASSIGN(std::string name, fields.text("op"));
  std::optional<Op> op = blank(name);
  if (!op) return Error{Code::kUnsupported, where + ": this stoker has no op \"" + name + "\"", {}};
  OpReader reader(fields, depth);
  std::visit([&](auto& fields_of) { describe(reader, fields_of); }, *op);
  STOKER_TRY(reader.status());
  STOKER_TRY(fields.no_others());
  return *std::move(op);
}

Json write_op(const Op& op) {
  Json out;
  out.set("op", op_name(op));
  OpWriter writer(out);
  Op copy = op;  // describe() serves both directions
  std::visit([&](auto& fields_of) { describe(writer, fields_of); }, copy);
  return out;
}

Result<Ops> read_ops(const Json& json, const std::string& where) {
  if (!json.is_array()) return invalid(where + " must be an array");
  if (json.as_array().size() > kMaxOps) return invalid(where + ": more than " + std::to_string(kMaxOps));
  Ops ops;
  for (size_t i = 0; i < json.as_array().size(); ++i) {
    STOKER_ASSIGN(Op op, read_op(json.as_array()[i], where + "[" + std::to_string(i) + "]"));
    ops.push_back(std::move(op));
  }
  return ops;
}

Json write_ops(const Ops& ops) {
  Json out{Json::Array{}};
  for (const Op& op : ops) out.push(write_op(op));
  return out;
}

}  // namespace stoker::pipeline
