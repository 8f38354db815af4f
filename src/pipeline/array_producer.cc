// SPDX-License-Identifier: Apache-2.0
#include "pipeline/array_producer.h"

#include "pipeline/random_access.h"

namespace stoker::pipeline {

ArrayProducer::ArrayProducer(const ArrayPlan& plan) : items_(plan.items) {
  for (const ArrayColumn& column : plan.columns)
    layout_.leaves.push_back({column.name, column.dtype, column.shape, column.row_bytes()});
}

Result<std::unique_ptr<ArrayProducer>> ArrayProducer::open(const Plan& plan, std::vector<ByteView> columns) {
  if (!plan.is_arrays()) return invalid("opening a plan: it is not one of arrays");
  std::unique_ptr<ArrayProducer> producer(new ArrayProducer(plan.arrays()));
  const std::vector<Leaf>& leaves = producer->layout_.leaves;
  if (columns.size() != leaves.size()) return invalid("opening a plan of arrays: another number of columns");
  for (size_t k = 0; k < leaves.size(); ++k) {
    uint64_t row = leaves[k].row_bytes;
    if (row > 0 && columns[k].size() / row < producer->items_)
      return invalid("opening a plan of arrays: " + leaves[k].name + " has too few rows");
  }
  producer->columns_ = std::move(columns);
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

Status ArrayProducer::produce(SampleRef ref, std::span<uint8_t* const> leaf_rows, Scratch& scratch) const {
  CHECK(leaf_rows.size() == columns_.size());
  if (ref.item >= items_) {
    return invalid("item " + std::to_string(ref.item) + " asked for at position " +
                   std::to_string(ref.position) + ", of " + std::to_string(items_));
  }
  for (size_t k = 0; k < leaf_rows.size(); ++k) {
    uint64_t bytes = layout_.leaves[k].row_bytes;
    if (bytes > 0) std::memcpy(leaf_rows[k], columns_[k].data() + ref.item * bytes, bytes);
    scratch.times.read_bytes += bytes;
  }
  ++scratch.times.samples;
  return ok();
}

}  // namespace stoker::pipeline
