// SPDX-License-Identifier: Apache-2.0
// FairQueue: what waits at a worker, of many sessions. Every other turn goes to the lowest batch of all,
// which is what ranks that step together wait for; the turns between to the session that was served longest
// ago, so that a job that is a million batches ahead gets its share beside one that has just begun. A value;
// not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace stoker::feed {

// `Job` has `session` (a shared_ptr), `batch`, and `arrival`, a number that no other has.
template <typename Job>
class FairQueue {
 public:
  using Pointer = std::shared_ptr<Job>;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void insert(Pointer job) {
    // A session that comes back has waited no longer than those that are here.
    Line& line = lines_.try_emplace(job->session.get(), Line{{}, turns_}).first->second;
    size_ += line.jobs.insert(std::move(job)).second;
  }

  // False if it does not wait here.
  bool erase(const Pointer& job) {
    auto found = lines_.find(job->session.get());
    if (found == lines_.end() || found->second.jobs.erase(job) == 0) return false;
    removed(found);
    return true;
  }

  // Takes the first in turn of those sessions whose lowest batch `may` go; none if none may.
  template <typename May>
  Pointer take(May may) {
    bool lowest = turns_ % 2 == 0;
    auto best = lines_.end();
    typename Jobs::iterator best_job;
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      auto job = line->second.jobs.begin();
      if (!may(**job)) continue;
      bool before = best == lines_.end() ||
                    (lowest ? Order()(*job, *best_job) : line->second.served_at < best->second.served_at);
      if (before) best = line, best_job = job;
    }
    if (best == lines_.end()) return nullptr;
    Pointer taken = *best_job;
    best->second.served_at = ++turns_;
    best->second.jobs.erase(best_job);
    removed(best);
    return taken;
  }

  std::vector<Pointer> take_all() {
    std::vector<Pointer> all;
    for (auto& [session, line] : lines_) all.insert(all.end(), line.jobs.begin(), line.jobs.end());
    lines_.clear();
    size_ = 0;
    return all;
  }

 private:
  struct Order {
    bool operator()(const Pointer& a, const Pointer& b) const {
      return std::pair(a->batch, a->arrival) < std::pair(b->batch, b->arrival);
    }
  };
  using Jobs = std::set<Pointer, Order>;
  struct Line {
    Jobs jobs;
    uint64_t served_at;
  };
  using Lines = std::map<const void*, Line>;

  void removed(typename Lines::iterator line) {
    --size_;
    if (line->second.jobs.empty()) lines_.erase(line);
  }

  Lines lines_;
  uint64_t turns_ = 0;
  size_t size_ = 0;
};

}  // namespace stoker::feed
