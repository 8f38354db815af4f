// SPDX-License-Identifier: Apache-2.0
// What is slow about taking an ended job away (`stoker rm`): its agents have to end, and its folder may be
// large. The folder is put aside first, under a name of which no job knows, so that the job's own name is
// free at once; what a server that is killed leaves there, the next one removes. Confined to the loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "http/loop.h"

namespace stoker::control {

class Removal {
 public:
  using Done = std::function<void(Status)>;
  // `jobs`: the folder of all jobs' folders. `idle` is called when the last piece of work is done.
  Removal(http::Loop& loop, std::string jobs, std::function<void()> idle);

  // Calls `again` when an agent of the job has ended, or with true when none has for a while.
  void await_agent(const std::string& job, std::function<void(bool late)> again);
  void agent_ended(const std::string& job);

  // Where the job's folder lies now; "" where there was none.
  Result<std::string> put_aside(const std::string& job) const;
  void put_back(const std::string& aside, const std::string& job) const;
  // Removes what was put aside, in the background.
  void clear(const std::string& aside, Done done);
  // What earlier servers left, one after the other: submissions of now get their turn in between.
  void clear_rest();
  bool busy() const { return clearing_ > 0; }

 private:
  struct Waiting {
    std::function<void(bool)> again;
    http::Loop::TimerId timer = 0;
  };

  void clear_next();

  http::Loop& loop_;
  const std::string jobs_;
  std::function<void()> idle_;
  std::multimap<std::string, Waiting> waiting_;  // by job
  std::vector<std::string> rest_;                // what earlier servers left and nobody clears yet
  int clearing_ = 0;
};

}  // namespace stoker::control
