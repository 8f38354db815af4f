// SPDX-License-Identifier: Apache-2.0
#include "feed/answer_times.h"

#include <algorithm>
#include <cstddef>

namespace stoker::feed {
namespace {
constexpr size_t kRecent = 64;
constexpr int64_t kUnknownNs = 1'000'000'000;    // how long answers take while none has come
constexpr int64_t kLongestNs = 600'000'000'000;  // the most that a process is given by measurement,
constexpr int64_t kShortestNs = 10'000'000'000;  // the least,
constexpr int64_t kFewNs = 60'000'000'000;       // the least by fewer answers than…
constexpr size_t kFew = 8;
constexpr int64_t kTellLateNs = 10'000'000'000;
constexpr int64_t kFirstNs = 300'000'000'000;  // and while none has come: first samples open what they need
}  // namespace

void AnswerTimes::note(int64_t took_ns) {
  auto place = [&](int64_t ns) { return std::lower_bound(sorted_ns_.begin(), sorted_ns_.end(), ns); };
  if (recent_ns_.size() == kRecent) {
    sorted_ns_.erase(place(recent_ns_.front()));
    recent_ns_.pop_front();
  }
  recent_ns_.push_back(took_ns);
  sorted_ns_.insert(place(took_ns), took_ns);
}

int64_t AnswerTimes::usual_ns() const {
  if (sorted_ns_.empty()) return kUnknownNs;
  return sorted_ns_[static_cast<size_t>(0.95 * static_cast<double>(sorted_ns_.size() - 1))];
}

int64_t AnswerTimes::patience_ns(int attempts, int64_t hurried_ns) const {
  int64_t least = recent_ns_.empty() ? kFirstNs : recent_ns_.size() < kFew ? kFewNs : kShortestNs;
  return patience_ns(std::clamp(20 * usual_ns(), least, kLongestNs), attempts, hurried_ns);
}

int64_t AnswerTimes::patience_ns(int64_t base_ns, int attempts, int64_t hurried_ns) {
  if (hurried_ns != 0) base_ns = std::min(base_ns, hurried_ns);
  return base_ns << std::min(attempts, 6);  // who was killed for being slow may simply have needed longer
}

bool AnswerTimes::is_late(int64_t took_ns, int64_t patience_ns) {
  return took_ns >= std::max(kTellLateNs, patience_ns / 4);
}

}  // namespace stoker::feed
