// SPDX-License-Identifier: Apache-2.0
#include "pipeline/array_producer.h"

#include <algorithm>

#include "base/clock.h"
#include "image/normalize.h"
#include "pipeline/random_access.h"

namespace stoker::pipeline {

ArrayProducer::ArrayProducer(const ArrayPlan& plan, std::vector<ByteView> columns) : items_(plan.items) {
  for (size_t k = 0; k < columns.size(); ++k) {
    const ArrayColumn& column = plan.columns[k];
    layout_.leaves.push_back({column.name, column.dtype, column.shape, column.row_bytes()});
    columns_.push_back({columns[k], column.row_bytes()});
  }
}

Status ArrayProducer::with_pictures(const Plan& plan) {
  const ArrayPlan& arrays = plan.arrays();
  STOKER_TRY(check_libraries(plan));
  STOKER_ASSIGN(picture_, picture_column(arrays));
  STOKER_ASSIGN(Known after, check_picture_ops(arrays));
  size_ = picture_size(arrays, picture_);
  planes_ = arrays.pictures->planes;
  transform_ = std::make_unique<PictureTransform>(arrays.pictures->ops, after, plan);
  layout_.leaves[picture_] = transform_->leaf(arrays.columns[picture_].name);
  return ok();
}

Result<std::unique_ptr<ArrayProducer>> ArrayProducer::open(const Plan& plan, std::vector<ByteView> columns) {
  if (!plan.is_arrays()) return invalid("opening a plan: it is not one of arrays");
  const ArrayPlan& arrays = plan.arrays();
  if (columns.size() != arrays.columns.size())
    return invalid("opening a plan of arrays: another number of columns");
  for (size_t k = 0; k < columns.size(); ++k) {
    uint64_t row = arrays.columns[k].row_bytes();
    if (row > 0 && columns[k].size() / row < arrays.items)
      return invalid("opening a plan of arrays: " + arrays.columns[k].name + " has too few rows");
  }
  std::unique_ptr<ArrayProducer> producer(new ArrayProducer(arrays, std::move(columns)));
  if (arrays.pictures) STOKER_TRY(producer->with_pictures(plan));
  return producer;
}

Result<std::unique_ptr<ArrayProducer>> ArrayProducer::open(const Plan& plan, ByteView attachment) {
  STOKER_ASSIGN(auto places, read_array_places(as_text(attachment)));
  std::vector<Mapping> mappings;
  std::vector<ByteView> columns;
  for (size_t k = 0; k < places.size(); ++k) {
    auto mapping = Mapping::of_file(places[k].path);
    if (!mapping) return unavailable("opening an array: " + mapping.error().message);
    ByteView bytes = mapping->bytes();
    if (places[k].offset > bytes.size())
      return damaged("truncated", places[k].path, bytes.size(), "it ends before its first row");
    columns.push_back(bytes.subspan(places[k].offset));
    if (k < plan.arrays().columns.size()) {
      uint64_t row = plan.arrays().columns[k].row_bytes();
      if (row > 0 && columns[k].size() / row < plan.arrays().items) {
        return damaged("truncated", places[k].path, bytes.size(),
                       "it ends before row " + std::to_string(columns[k].size() / row) + " of " +
                           std::to_string(plan.arrays().items));
      }
    }
    mappings.push_back(std::move(*mapping));
  }
  STOKER_ASSIGN(auto producer, open(plan, std::move(columns)));
  producer->mappings_ = std::move(mappings);
  return producer;
}

// Rows lie at random places, of which no hardware knows before they are touched. It sees how to go on once it
// has the beginning; more than that only waits for its turn (measured: docs/decisions/array-threads.md).
void ArrayProducer::comes_next(SampleRef ref) const {
  constexpr uint64_t kLine = 64, kEnough = 1024;
  if (ref.item >= items_) return;
  for (const Column& column : columns_) {
    const uint8_t* row = column.bytes.data() + ref.item * column.row_bytes;
    for (uint64_t at = 0; at < std::min(column.row_bytes, kEnough); at += kLine) __builtin_prefetch(row + at);
  }
}

Status ArrayProducer::produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const {
  CHECK(leaf_rows.size() == columns_.size());
  if (ref.item >= items_) {
    return invalid("item " + std::to_string(ref.item) + " asked for at position " +
                   std::to_string(ref.position) + ", of " + std::to_string(items_));
  }
  bool timed = scratch.times.times_next();
  int64_t begun = timed ? thread_cpu_ns() : 0, in_picture = 0;
  for (size_t k = 0; k < leaf_rows.size(); ++k) {
    const Column& column = columns_[k];
    scratch.times.read_bytes += column.row_bytes;
    if (transform_ && k == picture_) {
      int64_t entered = timed ? thread_cpu_ns() : 0;
      STOKER_TRY(picture(ref, column, leaf_rows[k], scratch, timed));
      if (timed) in_picture += thread_cpu_ns() - entered;
    } else if (column.row_bytes > 0) {
      std::memcpy(leaf_rows[k], column.bytes.data() + ref.item * column.row_bytes, column.row_bytes);
    }
  }
  if (timed) scratch.times.read_ns += static_cast<uint64_t>(thread_cpu_ns() - begun - in_picture);
  ++scratch.times.samples;
  scratch.times.timed += timed;
  return ok();
}

Status ArrayProducer::picture(SampleRef ref, const Column& column, uint8_t* out, Scratch& scratch,
                              bool timed) const {
  Scratch::Buffers& buffers = scratch.buffers();
  const uint8_t* data = column.bytes.data() + ref.item * column.row_bytes;
  if (planes_) {
    buffers.file.resize(column.row_bytes);
    image::from_planes(data, image::packed(buffers.file.data(), size_));
    data = buffers.file.data();
  }
  image::ImageView view{data, size_.width, size_.height, 3 * ptrdiff_t{size_.width}};
  Status status = transform_->pixels(ref, view, out, scratch, timed);
  if (status.ok()) return ok();
  return std::move(status).error().during("sample at position " + std::to_string(ref.position) + " (item " +
                                          std::to_string(ref.item) + ")");
}

}  // namespace stoker::pipeline
