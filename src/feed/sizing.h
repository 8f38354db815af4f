// SPDX-License-Identifier: Apache-2.0
// Sizing: how many workers a feed group should have, so that no training loop waits for data and no machine
// idles. docs/decisions/elastic-feed.md says why it is so.
//
// Demand is what the consumers would take if they never waited: samples over the time that they did not wait.
// Supply is a sum over unequal workers, each its cores over the CPU time that a sample takes there, so that a
// worker that idles counts as what it could do. More workers are wanted at once when a loop waits and they
// would remove it, fewer only after a while; between the two is a band in which nothing changes.
//
// Pure: events and times come in as arguments. All that is told are counters from the teller's start, so that
// a report that was lost costs nothing; one that runs backwards is of a teller that began again. Figures that
// make no sense are left out: they come from other machines.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace stoker::feed {

class Sizing {
 public:
  using ConsumerId = uint64_t;
  struct Worker {
    std::string group;
    double cores = 0;  // it may use, with fractions; 0: it does not say, and is left out
    uint64_t samples = 0;
    double cpu_s = 0;  // of all it does
    bool operator==(const Worker&) const = default;
  };
  struct Consumer {
    uint64_t samples = 0;  // taken
    double wait_s = 0;     // of `time_s`, for samples that more workers would have made sooner
    double time_s = 0;
    uint64_t spare = 0;  // samples that spare cores of its own machine have made, which cost no worker
    bool operator==(const Consumer&) const = default;
  };
  struct Advice {
    std::string group;
    int workers = 0;    // there are
    int wanted = 0;     // as of the last decision
    double demand = 0;  // samples/s
    double supply = 0;  // samples/s, of all groups
    double stall = 0;   // share of the time, of the consumer that waits most
    double spare = 0;   // samples/s made by consumers' own spare cores
    std::string reason;
  };

  // The constants of the rule.
  static constexpr int64_t kWindowNs = 5'000'000'000;  // figures are of so long
  static constexpr int64_t kLookNs = 3'000'000'000;    // and of at least this, without a change of workers
  static constexpr int64_t kWarmNs = 15'000'000'000;   // a new worker may need to make its first sample
  static constexpr int64_t kHoldNs = 20'000'000'000;   // fewer must do for so long
  static constexpr int64_t kMostHoldNs = 600'000'000'000;  // after shrinking too early, again and again
  static constexpr double kStalled = 0.05;                 // a loop that waits more than this is stalled,
  static constexpr double kCalm = 0.02;                    // one that waits less is not
  static constexpr double kHeadroom = 0.15;                // of supply over demand, when growing,
  static constexpr double kShrinkHeadroom = 0.3;           // and that must be left after shrinking
  static constexpr int kMostAtOnce = 4;                    // times as many as there are
  static constexpr double kBusy = 0.7;  // of their cores: workers that have no more to give

  explicit Sizing(int64_t now) : settled_ns_(now) {}

  void told(const std::string& worker, const Worker& figures, int64_t now);
  void worker_gone(const std::string& worker, int64_t now);
  void told(ConsumerId consumer, const Consumer& figures, int64_t now);
  void consumer_gone(ConsumerId consumer);

  // Looks at the figures; true when another number is wanted of some group.
  bool decide(int64_t now);
  std::vector<Advice> advice() const;  // by group; of those whose speed is known

 private:
  struct Mark {
    int64_t at_ns;
    Worker told;
  };
  struct Maker {
    int64_t since_ns = 0;
    bool made = false;  // has made a sample
    std::deque<Mark> marks;
    double cost_s = 0;  // CPU per sample; 0: not known
  };
  struct Part {  // what a consumer did between two reports
    int64_t at_ns;
    ConsumerId who;
    Consumer change;
  };
  struct Taker {
    Consumer last;
    double rate = 0;  // unstalled, samples/s, as last known
  };
  struct Use {
    bool known = false;
    double demand = 0, stall = 0, spare = 0;
  };
  struct Group {  // what is decided
    int wanted = 0;
    int64_t fewer_since_ns = 0;  // 0: not now
    int most_fewer = 0;          // that would have done since
    int64_t shrunk_ns = 0;       // last; 0: that has proved right, or wrong
    int64_t hold_ns = kHoldNs;
    Advice advice;
  };
  struct Supply {
    int workers = 0;
    double per_s = 0;      // of the group
    double all_per_s = 0;  // and of the others too
    double busy = 0;       // share of the group's cores
  };
  void settle(int64_t now);
  void forget_old(int64_t now);
  bool is_warming(int64_t now) const;
  Use use(int64_t now);
  double rate_of(const Maker& maker) const;
  std::map<std::string, Supply> supplies() const;
  bool decide(Group& group, const Use& use, const Supply& supply, int64_t now);

  std::map<std::string, Maker> makers_;
  std::map<ConsumerId, Taker> takers_;
  std::deque<Part> parts_;
  std::map<std::string, Group> groups_;
  int64_t settled_ns_;  // since when the workers are the same
};

}  // namespace stoker::feed
