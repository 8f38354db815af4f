// SPDX-License-Identifier: Apache-2.0
// A schedule: one small training run with what goes wrong in it, drawn from a seed. Values; pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stoker::feed::simulation {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  uint32_t roll(uint32_t n) { return static_cast<uint32_t>(next() % n); }  // 0 … n-1
  bool one_in(uint32_t n) { return roll(n) == 0; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};
uint64_t mix(uint64_t value);  // a sample's bytes, as a number

enum class FaultKind : uint8_t {
  kKill,        // kill -9: connections are reset; comes back at the same address
  kVanish,      // its machine is gone: nothing is heard, no connection ends
  kPause,       // SIGSTOP, and later SIGCONT
  kPartition,   // nothing passes between two of workers, ranks and dispatcher; later it all does
  kSlowLink,    // everything takes long
  kCorrupt,     // an answer is damaged on its way
  kDuplicate,   // an answer comes a second time, later
  kDispatcher,  // the dispatcher is away and comes back knowing nothing
  kJoin,        // a worker more, mid-epoch
  kDrain,       // a worker says goodbye and finishes what it has
  kLeave,       // a worker ends without a word and does not come back
  kChildHangs,  // a child misses its deadline
  kChildDies,
  kRetry,        // rows cannot be made for a while
  kFinal,        // a row never can
  kWindow,       // less memory than is asked for
  kConsumer,     // a trainer takes nothing for a while
  kTrainer,      // SIGSTOP, and later SIGCONT, of a trainer; its children go on
  kLonely,       // no worker is left for longer than ranks wait
  kResume,       // all trainers end; other numbers of ranks and workers go on from a step
  kSpareDies,    // of spare workers, in schedules of their own
  kSpareStops,   // SIGSTOP, and later SIGCONT
  kSpareYields,  // steps back, and later takes part again
  kElastic,      // workers come and go as the dispatcher wants them; in long schedules of their own
};
constexpr size_t kFaultKinds = 24;
const char* name_of(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::kKill;
  uint32_t after = 0;  // answers that have counted before it strikes
  int64_t length_ns = 0;
  bool struck = false;
  bool hit = false;  // somebody noticed
};

struct Machine {  // of a worker
  uint32_t hands = 1;
  int64_t row_ns = kMs;
  int64_t latency_ns = kMs / 10;
};

struct Schedule {
  uint64_t seed = 0;
  uint32_t ranks = 1;
  uint32_t kids = 0;   // children of each rank
  bool spare = false;  // each rank has a spare worker
  std::vector<Machine> workers;
  bool dispatcher = false;  // otherwise ranks know the workers' addresses
  uint32_t steps = 1;
  uint32_t batch_rows = 1;  // of all ranks together
  uint32_t look_ahead = 1;  // batches asked for before they are taken
  uint32_t request_rows = 1;
  bool units = false;  // a batch is one range, and its size is known when it is there
  uint64_t window_bytes = 0;
  int64_t deadline_ns = 0;
  int64_t lonely_ns = 0;
  int64_t step_ns = 0;       // of training
  uint32_t slow_from = ~0U;  // this step on…
  int64_t slow_ns = 0;       // …they take so long
  std::vector<Fault> faults;
  std::vector<uint32_t> bad_rows;                        // positions that never can be made
  std::vector<std::pair<uint32_t, uint32_t>> late_rows;  // position, how often it cannot be read
  int64_t step_ns_at(uint32_t step) const { return step < slow_from ? step_ns : slow_ns; }
  uint32_t positions() const { return steps * batch_rows; }
  std::string text() const;
};
constexpr uint64_t kRowBytes = 10;

Schedule make_schedule(uint64_t seed);

}  // namespace stoker::feed::simulation
