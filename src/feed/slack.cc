// SPDX-License-Identifier: Apache-2.0
#include "feed/slack.h"

#include <algorithm>

namespace stoker::feed {

double Slack::told(const Told& told, int64_t now) {
  marks_.push_back({now, told});
  while (marks_.size() > 2 && marks_[1].at_ns <= now - kWindowNs) marks_.pop_front();
  while (marks_.front().at_ns < now - 2 * kWindowNs) marks_.pop_front();  // there was no look for long
  const Mark& from = marks_.front();
  if (now - from.at_ns < kLookNs) return share_;
  const double time = static_cast<double>(now - from.at_ns);
  auto share = [&](int64_t Told::*counter) {
    return static_cast<double>(std::max<int64_t>(0, told.*counter - from.told.*counter)) / time;
  };
  const double wait = share(&Told::waited_ns), delay = share(&Told::delay_ns);
  const double room = kUsed * cores_ - share(&Told::run_ns);
  const bool is_short = delay >= kShort && delay > kShortOfWait * wait;
  const bool is_tight = delay >= kTight && delay > kTightOfWait * wait;
  if (share_ > 0) {
    if (is_short) {
      step_back(State::kTrainerShort, now);
    } else if (room < kLeast) {
      step_back(State::kTrainerBusy, now);
    } else {
      share_ = std::min(room, std::max(kLeast, share_ * (is_tight ? kYield : kGrow)));
    }
    return share_;
  }
  if (wait < kStalled) {
    state_ = State::kUnneeded;
  } else if (is_tight) {
    state_ = State::kTrainerShort;
  } else if (room < kBegin) {
    state_ = State::kTrainerBusy;
  } else if (now < not_before_ns_) {
    state_ = State::kPaused;
  } else {
    state_ = State::kTakesPart;
    share_ = room / 2;
    began_ns_ = now;
    marks_.erase(marks_.begin(), std::prev(marks_.end()));  // what was measured without it says nothing of it
  }
  return share_;
}

void Slack::step_back(State why, int64_t now) {
  state_ = why;
  share_ = 0;
  pause_ns_ = now - began_ns_ < kSoonNs ? std::min(2 * pause_ns_, kMostPauseNs) : kPauseNs;
  not_before_ns_ = now + pause_ns_;
  marks_.erase(marks_.begin(), std::prev(marks_.end()));
}

}  // namespace stoker::feed
