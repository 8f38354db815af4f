// SPDX-License-Identifier: Apache-2.0
#include "pipeline/array_plan.h"

#include <set>

#include "image/decode.h"

namespace stoker::pipeline {
namespace {

constexpr size_t kMaxColumns = 64;
constexpr size_t kMaxDimensions = 32;
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 32;
constexpr uint64_t kMaxItems = uint64_t{1} << 48;

Result<ArrayPictures> read_pictures(const Json& json) {
  Fields fields(json, "pictures");
  ArrayPictures pictures;
  STOKER_ASSIGN(pictures.column, fields.text("column"));
  STOKER_ASSIGN(std::string layout, fields.text("layout"));
  if (layout != "hwc" && layout != "chw") return invalid("pictures.layout must be \"hwc\" or \"chw\"");
  pictures.planes = layout == "chw";
  STOKER_ASSIGN(pictures.ops, read_ops(fields.take("ops"), "pictures.ops"));
  STOKER_TRY(fields.no_others());
  return pictures;
}

Result<ArrayColumn> read_column(const Json& json, const std::string& where) {
  Fields fields(json, where);
  ArrayColumn column;
  STOKER_ASSIGN(column.name, fields.text("name"));
  STOKER_ASSIGN(std::string dtype, fields.text("dtype"));
  STOKER_ASSIGN(column.content, fields.text("content"));
  const Json& shape = fields.take("shape");
  STOKER_TRY(fields.no_others());
  auto known = dtype_named(dtype);
  if (!known)
    return Error{Code::kUnsupported, where + ".dtype: this stoker has no dtype \"" + dtype + "\"", {}};
  column.dtype = *known;
  if (!shape.is_array() || shape.as_array().size() > kMaxDimensions)
    return invalid(where + ".shape must be a list of at most 32 integers");
  for (const Json& side : shape.as_array()) {
    if (!side.is_int()) return invalid(where + ".shape must be a list of integers");
    column.shape.push_back(side.as_int());
  }
  return column;
}

}  // namespace

uint64_t ArrayColumn::row_bytes() const {
  uint64_t bytes = dtype_size(dtype);
  for (int64_t side : shape) bytes *= static_cast<uint64_t>(side);
  return bytes;
}

Result<ArrayPlan> read_array_plan(Fields& fields) {
  ArrayPlan plan;
  STOKER_ASSIGN(int64_t items, fields.integer("items"));
  if (items < 0) return invalid("items must not be negative");
  plan.items = static_cast<uint64_t>(items);
  const Json& columns = fields.take("columns");
  if (!columns.is_array()) return invalid("columns must be an array");
  for (size_t i = 0; i < columns.as_array().size() && i <= kMaxColumns; ++i) {
    STOKER_ASSIGN(ArrayColumn column,
                  read_column(columns.as_array()[i], "columns[" + std::to_string(i) + "]"));
    plan.columns.push_back(std::move(column));
  }
  const Json& pictures = fields.take("pictures");
  if (!pictures.is_null()) {
    STOKER_ASSIGN(plan.pictures, read_pictures(pictures));
  }
  return plan;
}

Json write_array_plan(const ArrayPlan& plan) {
  Json columns{Json::Array{}};
  for (const ArrayColumn& column : plan.columns) {
    Json one, shape{Json::Array{}};
    for (int64_t side : column.shape) shape.push(side);
    one.set("name", column.name).set("dtype", dtype_name(column.dtype)).set("shape", shape);
    one.set("content", column.content);
    columns.push(one);
  }
  Json out;
  out.set("columns", columns).set("items", plan.items);
  if (plan.pictures) {
    Json pictures;
    pictures.set("column", plan.pictures->column).set("layout", plan.pictures->planes ? "chw" : "hwc");
    out.set("pictures", pictures.set("ops", write_ops(plan.pictures->ops)));
  }
  return out;
}

Status check_array_plan(const ArrayPlan& plan) {
  if (plan.columns.empty() || plan.columns.size() > kMaxColumns)
    return invalid("columns: there must be 1 to " + std::to_string(kMaxColumns));
  if (plan.items > kMaxItems) return invalid("items is out of range");
  std::set<std::string> names;
  uint64_t row = 0;
  for (const ArrayColumn& column : plan.columns) {
    if (column.name.empty() || !names.insert(column.name).second)
      return invalid("columns: names must be there, and differ");
    uint64_t bytes = dtype_size(column.dtype);
    for (int64_t side : column.shape) {
      if (side < 0 || (side > 0 && bytes > kMaxRowBytes / static_cast<uint64_t>(side)))
        return invalid("columns: a row of " + column.name + " must have a size of at most 4 GiB");
      bytes *= static_cast<uint64_t>(side);
    }
    row += bytes;
  }
  if (row > kMaxRowBytes) return invalid("columns: a row must have a size of at most 4 GiB");
  if (plan.pictures) STOKER_TRY(check_picture_ops(plan));
  return ok();
}

Result<size_t> picture_column(const ArrayPlan& plan) {
  for (size_t k = 0; k < plan.columns.size(); ++k) {
    const ArrayColumn& column = plan.columns[k];
    if (column.name != plan.pictures->column) continue;
    const std::vector<int64_t>& shape = column.shape;
    bool is_picture = column.dtype == DType::kUint8 && shape.size() == 3 &&
                      shape[plan.pictures->planes ? 0 : 2] == 3 && column.row_bytes() > 0 &&
                      column.row_bytes() <= 3 * uint64_t{image::kMaxPixels};
    if (is_picture) return k;
    return invalid("pictures.column: rows of " + column.name +
                   " are no pictures of uint8 and three channels");
  }
  return invalid("pictures.column: there is no column \"" + plan.pictures->column + "\"");
}

image::Size picture_size(const ArrayPlan& plan, size_t column) {
  const std::vector<int64_t>& shape = plan.columns[column].shape;
  size_t at = plan.pictures->planes ? 1 : 0;
  return {static_cast<int>(shape[at + 1]), static_cast<int>(shape[at])};
}

Result<Known> check_picture_ops(const ArrayPlan& plan) {
  STOKER_ASSIGN(size_t column, picture_column(plan));
  return check_ops(plan.pictures->ops, Known{.size = picture_size(plan, column)});
}

Result<std::vector<ArrayPlace>> read_array_places(std::string_view attachment) {
  STOKER_ASSIGN(Json list, Json::parse(attachment));
  if (!list.is_array()) return invalid("the attachment of an array plan must be a list");
  std::vector<ArrayPlace> places;
  for (const Json& one : list.as_array()) {
    Fields fields(one, "attachment[" + std::to_string(places.size()) + "]");
    ArrayPlace place;
    STOKER_ASSIGN(place.path, fields.text("path"));
    STOKER_ASSIGN(int64_t offset, fields.integer("offset"));
    STOKER_TRY(fields.no_others());
    if (place.path.empty() || place.path[0] != '/' || place.path.find('\0') != std::string::npos ||
        offset < 0)
      return invalid(fields.where() + " must be an absolute path and an offset");
    place.offset = static_cast<uint64_t>(offset);
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace stoker::pipeline
