// SPDX-License-Identifier: Apache-2.0
#include "image/resample.h"

#include <algorithm>
#include <vector>

#include "image/fault.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

// The last rows of a stream by number.
class Ring {
 public:
  Ring(uint8_t* data, size_t stride, int slots) : data_(data), stride_(stride), slots_(slots) {}
  uint8_t* row(int number) const { return data_ + size_t(number % slots_) * stride_; }

 private:
  uint8_t* data_;
  size_t stride_;
  int slots_;
};

size_t stride_of(int pixels) { return round_up(3 * size_t(pixels) + kSlack, 64); }

// Points rows[t] at the inputs of output row `y`; taps past the end are pointed at the last one, with weight
// zero.
template <typename RowAt>
void gather(const Axis& lines, int y, RowAt row_at, const uint8_t** rows) {
  int padded = (lines.count(y) + 3) / 4 * 4;
  for (int t = 0; t < padded; ++t) rows[t] = row_at(lines.first(y) + std::min(t, lines.count(y) - 1));
}

// Horizontal first: each source row is narrowed as it comes; an output row is made when its last input is
// there.
Status horizontal_first(const ResamplePlan& plan, RowSource& source, RowSink& sink, Workspace::Parts& parts) {
  const Kernels& kernels = *parts.kernels;
  const Axis& columns = parts.columns;
  const Axis& lines = parts.lines;
  int slots = int(round_up(size_t(lines.taps() + kRowBatch), kRowBatch));
  size_t stride = stride_of(columns.size());
  size_t pointers = round_up(sizeof(const uint8_t*) * size_t(std::max(slots, lines.taps_padded())), 64);
  size_t bytes = stride * size_t(slots + 1) + 2 * pointers;
  uint8_t* memory = parts.resample.grow(bytes);
  if (memory == nullptr) return no_memory(bytes);
  auto** latest = reinterpret_cast<const uint8_t**>(memory);  // where row n is: latest[n % slots]
  auto** gathered = reinterpret_cast<const uint8_t**>(memory + pointers);
  Ring ring(memory + 2 * pointers, stride, slots);
  uint8_t* finished = ring.row(0) + stride * size_t(slots);

  size_t row_bytes = 3 * size_t(columns.size());
  int out = 0;
  int have = 0;
  while (have < plan.source.height) {
    const uint8_t* rows[kRowBatch];
    STOKER_ASSIGN(int got, source.next(rows, kRowBatch));
    if (got == 0) return internal("a picture's rows ended early");
    if (plan.horizontal) {
      uint8_t* narrow[kRowBatch];
      for (int i = 0; i < got; ++i) narrow[i] = ring.row(have + i);
      kernels.horizontal(columns.view(), parts.table.grow(0), rows, narrow, got);
      for (int i = 0; i < got; ++i) latest[(have + i) % slots] = narrow[i];
    } else {
      for (int i = 0; i < got; ++i) latest[(have + i) % slots] = rows[i];
    }
    have += got;
    if (!plan.vertical) {
      for (int i = have - got; i < have; ++i) sink.put(latest[i % slots]);
      continue;
    }
    for (; out < lines.size() && lines.first(out) + lines.count(out) <= have; ++out) {
      gather(
          lines, out, [&](int number) { return latest[number % slots]; }, gathered);
      kernels.vertical(gathered, lines.weights(out), lines.count(out), row_bytes, finished);
      sink.put(finished);
    }
  }
  return ok();
}

// Vertical first: output rows at the source's width, narrowed in batches.
Status vertical_first(const ResamplePlan& plan, RowSource& source, RowSink& sink, Workspace::Parts& parts) {
  const Kernels& kernels = *parts.kernels;
  const Axis& columns = parts.columns;
  const Axis& lines = parts.lines;
  int slots = int(round_up(size_t(lines.taps() + kRowBatch), kRowBatch));
  size_t wide_stride = stride_of(plan.source.width);
  size_t narrow_stride = stride_of(columns.size());
  size_t pointers = round_up(sizeof(const uint8_t*) * size_t(std::max(slots, lines.taps_padded())), 64);
  size_t bytes = (wide_stride + narrow_stride) * kRowBatch + 2 * pointers;
  uint8_t* memory = parts.resample.grow(bytes);
  if (memory == nullptr) return no_memory(bytes);
  auto** latest = reinterpret_cast<const uint8_t**>(memory);
  auto** gathered = reinterpret_cast<const uint8_t**>(memory + pointers);
  uint8_t* wide[kRowBatch];
  uint8_t* narrow[kRowBatch];
  for (int i = 0; i < kRowBatch; ++i) {
    wide[i] = memory + 2 * pointers + size_t(i) * wide_stride;
    narrow[i] = memory + 2 * pointers + kRowBatch * wide_stride + size_t(i) * narrow_stride;
  }

  size_t row_bytes = 3 * size_t(plan.source.width);
  int out = 0;
  int have = 0;
  int batched = 0;
  while (out < lines.size()) {
    for (; out < lines.size() && lines.first(out) + lines.count(out) <= have && batched < kRowBatch; ++out) {
      gather(
          lines, out, [&](int number) { return latest[number % slots]; }, gathered);
      kernels.vertical(gathered, lines.weights(out), lines.count(out), row_bytes, wide[batched++]);
    }
    if (batched == kRowBatch || out == lines.size()) {
      kernels.horizontal(columns.view(), parts.table.grow(0), wide, narrow, batched);
      for (int i = 0; i < batched; ++i) sink.put(narrow[i]);
      batched = 0;
      continue;
    }
    const uint8_t* rows[kRowBatch];
    STOKER_ASSIGN(int got, source.next(rows, kRowBatch));
    if (got == 0) return internal("a picture's rows ended early");
    for (int i = 0; i < got; ++i) latest[(have + i) % slots] = rows[i];
    have += got;
  }
  return ok();
}

}  // namespace

ResamplePlan plan_resample(Size from, Size to, const Box& window, const Resampling& how, bool vertical_first,
                           Workspace& workspace) {
  Axis& columns = workspace.parts().columns;
  Axis& lines = workspace.parts().lines;
  columns.set(from.width, to.width, window.left, window.left + window.width, how);
  lines.set(from.height, to.height, window.top, window.top + window.height, how);
  ResamplePlan plan;
  plan.horizontal = !columns.identity();
  plan.vertical = !lines.identity();
  plan.vertical_first = plan.horizontal && plan.vertical && vertical_first;
  plan.source = {columns.source_begin(), lines.source_begin(), columns.source_end() - columns.source_begin(),
                 lines.source_end() - lines.source_begin()};
  plan.keep =
      plan.vertical && (plan.vertical_first || !plan.horizontal) ? lines.taps() + kRowBatch : kRowBatch;
  return plan;
}

Status resample(const ResamplePlan& plan, RowSource& source, RowSink& sink, Workspace& workspace) {
  Workspace::Parts& parts = workspace.parts();
  if (plan.horizontal) {
    size_t bytes = parts.kernels->table_bytes(parts.columns.view());
    uint8_t* table = parts.table.grow(bytes);
    if (table == nullptr && bytes > 0) return no_memory(bytes);
    parts.kernels->make_table(parts.columns.view(), table);
  }
  return plan.vertical_first ? vertical_first(plan, source, sink, parts)
                             : horizontal_first(plan, source, sink, parts);
}

}  // namespace stoker::image
