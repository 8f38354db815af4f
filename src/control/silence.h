// SPDX-License-Identifier: Apache-2.0
// Which agents have not been heard of for long. An agent asks for its commands all the time (agent/
// server_link.h): one that does not is paused, or its machine hangs, and a job whose agents say nothing would
// stay `running` whatever became of it, with nobody told why.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stoker::control {

class Silence {
 public:
  // `limit_ns` is more than a long poll is held.
  explicit Silence(int64_t limit_ns) : limit_ns_(limit_ns) {}

  // Said of an agent at its start too. True: it had been told of as silent, and is back.
  bool heard(const std::string& agent, int64_t now_ns);
  void ended(const std::string& agent) { agents_.erase(agent); }
  bool nobody() const { return agents_.empty(); }

  // Those that have become silent since the last look. A look that comes late says nothing of the agents: we
  // were paused ourselves, and what they said waits to be read.
  std::vector<std::string> look(int64_t now_ns);
  int64_t look_every_ns() const { return limit_ns_ / 4; }

 private:
  struct Heard {
    int64_t at_ns = 0;
    bool told = false;
  };
  int64_t limit_ns_;
  int64_t looked_ns_ = 0;
  std::map<std::string, Heard> agents_;
};

}  // namespace stoker::control
