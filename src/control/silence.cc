// SPDX-License-Identifier: Apache-2.0
#include "control/silence.h"

#include <utility>

namespace stoker::control {

bool Silence::heard(const std::string& agent, int64_t now_ns) {
  if (agents_.empty()) looked_ns_ = now_ns;  // nobody looked while there was none
  return std::exchange(agents_[agent], {now_ns, false}).told;
}

std::vector<std::string> Silence::look(int64_t now_ns) {
  const bool late = now_ns - std::exchange(looked_ns_, now_ns) > 2 * look_every_ns();
  std::vector<std::string> silent;
  for (auto& [agent, heard] : agents_) {
    if (heard.told) continue;
    if (late) heard.at_ns = now_ns;
    if (now_ns - heard.at_ns <= limit_ns_) continue;
    heard.told = true;
    silent.push_back(agent);
  }
  return silent;
}

}  // namespace stoker::control
