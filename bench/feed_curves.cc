// SPDX-License-Identifier: Apache-2.0
// What the feed's decisions cost: the CPU time of a rank's decisions for each request, over numbers of
// workers and of open ranges, and then one run of 1,000 workers and 512 ranks. Runs without faults and
// without checks, as large as jobs get.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "feed/assign.h"
#include "feed/simulation/schedule.h"

namespace stoker::feed::simulation {
namespace {
constexpr uint32_t kRows = 16;    // of a request
constexpr uint32_t kRanges = 16;  // of a batch
constexpr uint32_t kHands = 4;    // of a worker
constexpr int64_t kTripNs = kMs / 5;

struct Shape {
  uint32_t workers = 1, ranks = 1, open_batches = 1, batches = 1;
  int64_t row_ns = kMs;
};

struct Cost {
  int64_t cpu_ns = 0;
  uint64_t answers = 0, decides = 0, timed = 0;
  double per_answer_us() const { return static_cast<double>(cpu_ns) / 1e3 / static_cast<double>(answers); }
};

class Run {
 public:
  explicit Run(const Shape& shape) : shape_(shape), random_(1), free_at_(shape.workers * kHands) {
    for (uint32_t worker = 0; worker < shape.workers; ++worker)  // unequal ones
      row_ns_.push_back(random_.between(shape.row_ns / 2, shape.row_ns * 2));
  }

  Cost run() {
    AssignOptions options;
    options.window_bytes = uint64_t{1} << 40;
    options.request_rows = kRows;
    for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
      ranks_.push_back({std::make_unique<Assigner>(options, 0)});
      for (uint32_t worker = 0; worker < shape_.workers; ++worker)
        ranks_[rank].assigner->joined(worker + 1, false, kHands, 0);
      for (uint32_t batch = 0; batch < shape_.open_batches; ++batch) push(ranks_[rank]);
      decide(rank);
    }
    cost_ = {};  // starting is not part of it
    while (!events_.empty()) {
      Event event = events_.top();
      events_.pop();
      now_ = event.at;
      Rank& rank = ranks_[event.rank];
      if (event.endpoint == 0) {
        if (event.serial != rank.serial) continue;
        ++cost_.timed;
      } else if (!answered(rank, event)) {
        continue;
      }
      decide(event.rank);
    }
    return cost_;
  }

 private:
  struct Event {
    int64_t at;
    uint32_t rank;
    EndpointId endpoint;  // 0: a timer
    uint64_t serial;
    RangeId range;
    bool operator>(const Event& other) const { return at > other.at; }
  };
  struct Rank {
    std::unique_ptr<Assigner> assigner;
    uint64_t serial = 0;
    BatchId next_out = 0, pushed = 0;
  };

  void push(Rank& rank) {
    if (rank.pushed == shape_.batches) return;
    rank.assigner->push(kRanges * kRows, kRanges * kRows * 150'000);
    ++rank.pushed;
  }

  bool answered(Rank& rank, const Event& event) {
    ++cost_.answers;
    int64_t began = thread_cpu_ns();
    rank.assigner->answered(event.range, event.endpoint, now_);
    while (rank.next_out < rank.pushed && rank.assigner->done(rank.next_out)) {
      rank.assigner->delivered(rank.next_out++);
      push(rank);
    }
    cost_.cpu_ns += thread_cpu_ns() - began;
    return true;
  }

  void decide(uint32_t index) {
    Rank& rank = ranks_[index];
    int64_t began = thread_cpu_ns();
    Decisions decisions = rank.assigner->decide(now_);
    auto wake = rank.assigner->wake_at(now_);
    cost_.cpu_ns += thread_cpu_ns() - began;
    ++cost_.decides;
    ++rank.serial;
    for (const Ask& ask : decisions.ask) {
      auto hand = free_at_.begin() + static_cast<ptrdiff_t>((ask.endpoint - 1) * kHands);
      hand = std::min_element(hand, hand + kHands);
      *hand = std::max(*hand, now_ + kTripNs) + rank.assigner->rows_of(ask.range) * row_ns_[ask.endpoint - 1];
      events_.push({*hand + kTripNs, index, ask.endpoint, 0, ask.range});
    }
    if (wake) events_.push({*wake, index, 0, rank.serial, {}});
  }

  const Shape shape_;
  Random random_;
  int64_t now_ = 0;
  Cost cost_;
  std::vector<Rank> ranks_;
  std::vector<int64_t> row_ns_;
  std::vector<int64_t> free_at_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

void print_row(const char* what, const Shape& shape) {
  Cost cost = Run(shape).run();
  std::printf("  %-24s %6u %6u %8u   %8.2f us a request, %llu requests, %.2f decisions each, %.2f by time\n",
              what, shape.workers, shape.ranks, shape.open_batches * kRanges, cost.per_answer_us(),
              static_cast<unsigned long long>(cost.answers),
              static_cast<double>(cost.decides) / static_cast<double>(cost.answers),
              static_cast<double>(cost.timed) / static_cast<double>(cost.answers));
  std::fflush(stdout);
}

void print_curves() {
  std::printf("  %-24s %6s %6s %8s\n", "", "workers", "ranks", "ranges");
  for (uint32_t workers : {1, 10, 100, 1000})
    for (uint32_t open : {4, 32, 256})
      print_row("slow rows, most wait", {workers, 1, open, open + 250, 10 * kMs});
  for (uint32_t workers : {1, 10, 100, 1000})
    for (uint32_t open : {4, 32, 256})
      print_row("quick rows, all asked", {workers, 1, open, open + 250, kMs / 20});
  print_row("1,000 workers, 512 ranks", {1000, 512, 16, 20, kMs});
}

}  // namespace
}  // namespace stoker::feed::simulation

int main() { stoker::feed::simulation::print_curves(); }
