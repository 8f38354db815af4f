// SPDX-License-Identifier: Apache-2.0
// What is new in the file in which the dispatcher says how many workers are wanted. The file is in the
// script's hands too, and each piece of news is kept for the job's life: so one per feed group and second at
// most, and only another number than was told last. Pure; the time comes in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/protocol.h"

namespace stoker::agent {

class SizingNews {
 public:
  // `text`: what the file holds now; what is no such text says nothing. What comes too soon after other news
  // of its group comes with a later look.
  std::vector<WantedSize> look(const std::string& text, const Assignment& assignment, int64_t now_ns);

 private:
  struct Told {
    WantedSize latest;
    int64_t wanted = -1, at_ns = 0;  // as told last; -1: not yet
  };
  std::string text_;
  std::map<std::string, Told> groups_;
};

}  // namespace stoker::agent
