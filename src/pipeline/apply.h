// SPDX-License-Identifier: Apache-2.0
// Carries out what was decided for one sample: pictures through a Stage, then the row of the batch in place.
// Confined.
#pragma once

#include <functional>

#include "image/normalize.h"
#include "image/view.h"
#include "pipeline/actions.h"
#include "pipeline/stage.h"

namespace stoker::pipeline {

// Where a sample's planes go. The caller owns the memory; `size` is what the plan promises.
struct Row {
  uint8_t* data;
  image::Size size;
  int channels;
  const image::NormalizeTable* table;  // of float32 rows, else null
  bool table_normalizes;               // the normalize right behind to_float is in the table
};

// `done(i)`, if given, is called when the i-th action, or a chain of blurs that ends with it, has been
// carried out.
Status apply(const Actions& actions, Stage& stage, const Row& row,
             const std::function<void(size_t)>& done = {});

}  // namespace stoker::pipeline
