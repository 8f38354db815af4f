// SPDX-License-Identifier: Apache-2.0
// The two passes of a resize as a stream: rows in, finished rows out in order, with only as many rows in
// memory as one output row needs. Confined.
#pragma once

#include "base/result.h"
#include "image/axis.h"
#include "image/row_source.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

// Takes finished rows of RGB bytes, top to bottom.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual void put(const uint8_t* row) = 0;
};

// What a resize from `from` to `to` will do, of which `window` is wanted. Prepares the workspace's two axes.
struct ResamplePlan {
  bool horizontal = false;  // passes that are needed
  bool vertical = false;
  bool vertical_first = false;
  Box source;    // the part of the input that the window depends on
  int keep = 0;  // rows that the source must keep, see RowSource
};
ResamplePlan plan_resample(Size from, Size to, const Box& window, const Resampling& how, bool vertical_first,
                           Workspace& workspace);

// Reads plan.source's rows from `source` and hands the window's rows to `sink`.
Status resample(const ResamplePlan& plan, RowSource& source, RowSink& sink, Workspace& workspace);

}  // namespace stoker::image
