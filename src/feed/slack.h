// SPDX-License-Identifier: Apache-2.0
// Slack: how many of the trainer's cores spare workers may use now (docs/decisions/spare-cores.md). They take
// part when the loop waits for batches and the trainer leaves cores, and step back when the trainer waits for
// cores, which is worse than a little of the time that it waits for batches. Pure: what was measured and the
// time come in as arguments.
#pragma once

#include <cstdint>
#include <deque>

namespace stoker::feed {

class Slack {
 public:
  struct Told {  // counters, of all threads of the training process
    int64_t run_ns = 0;
    int64_t delay_ns = 0;   // ready to run and without a core: others had them, or the quota held it back
    int64_t waited_ns = 0;  // its loop, for batches
  };
  enum class State {
    kUnneeded,  // the loop has not waited
    kTakesPart,
    kTrainerShort,  // the trainer waits for cores
    kTrainerBusy,   // it leaves next to none
    kPaused,        // after one of these two
  };

  // The constants of the rule; shares are of the time.
  static constexpr int64_t kWindowNs = 2'000'000'000;  // figures are of so long
  static constexpr int64_t kLookNs = 900'000'000;      // and of at least this
  static constexpr double kStalled = 0.05;             // a loop that waits more than this needs batches
  static constexpr double kShort = 0.05;       // a trainer that waits for cores more than this, and more than
  static constexpr double kShortOfWait = 0.5;  // this part of what it waits for batches, is short of them
  static constexpr double kTight = 0.03, kTightOfWait = 0.25;  // the same, of one that is nearly so
  static constexpr double kUsed = 0.9;                  // of all cores, by the trainer and spare workers
  static constexpr double kLeast = 0.05, kBegin = 0.1;  // cores worth having, worth beginning with
  static constexpr double kGrow = 1.25, kYield = 0.7;  // at each look: the share when all is well, when tight
  static constexpr int64_t kSoonNs = 10'000'000'000;   // one that steps back so soon…
  static constexpr int64_t kPauseNs = 2'000'000'000;   // …stays away twice as long, from this
  static constexpr int64_t kMostPauseNs = 60'000'000'000;  // up to this

  explicit Slack(double cores) : cores_(cores) {}

  // At each look. Cores that spare workers may use from now on; 0: none.
  double told(const Told& told, int64_t now);
  State state() const { return state_; }

 private:
  struct Mark {
    int64_t at_ns;
    Told told;
  };
  void step_back(State why, int64_t now);

  const double cores_;
  std::deque<Mark> marks_;
  double share_ = 0;
  State state_ = State::kUnneeded;
  int64_t began_ns_ = 0;
  int64_t pause_ns_ = kPauseNs, not_before_ns_ = 0;
};

}  // namespace stoker::feed
