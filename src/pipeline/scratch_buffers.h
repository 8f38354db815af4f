// SPDX-License-Identifier: Apache-2.0
// What a Scratch holds: buffers that one thread reuses from sample to sample. Only for producers. Confined.
#pragma once

#include <vector>

#include "image/workspace.h"
#include "pipeline/actions.h"
#include "pipeline/producer.h"

namespace stoker::pipeline {

struct Scratch::Buffers {
  std::vector<uint8_t> file;
  std::vector<uint8_t> mask;
  std::vector<uint8_t> cached;         // of the picture cache: all of an entry, or its head,
  std::vector<uint8_t> cached_rows;    // and what else of it is needed
  std::vector<uint8_t> other_picture;  // decoded by another decoder than ours
  std::vector<uint8_t> pictures[2];    // of a Stage
  image::Workspace workspace;
  Actions actions;            // what was decided for the picture,
  image::Size picture;        // which was of that size
  std::vector<size_t> op_of;  // the op of each action

  // What one huge picture blew up shrinks again.
  void shrink();
};

}  // namespace stoker::pipeline
