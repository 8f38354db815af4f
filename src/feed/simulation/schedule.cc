// SPDX-License-Identifier: Apache-2.0
#include "feed/simulation/schedule.h"

#include <algorithm>
#include <sstream>

namespace stoker::feed::simulation {

uint64_t mix(uint64_t value) {  // splitmix64's
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  return mix(state_);
}

const char* name_of(FaultKind kind) {
  constexpr std::array<const char*, kFaultKinds> kNames = {
      "kill",       "vanish",     "pause",      "partition",   "slow link",    "corrupt",
      "duplicate",  "dispatcher", "join",       "drain",       "leave",        "child hangs",
      "child dies", "retry",      "final",      "window",      "consumer",     "trainer",
      "lonely",     "resume",     "spare dies", "spare stops", "spare yields", "elastic"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {
Machine make_machine(Random& random) {
  Machine machine;
  machine.hands = 1 + random.roll(3);
  machine.row_ns = random.between(kMs / 4, random.one_in(3) ? 20 * kMs : 4 * kMs);
  machine.latency_ns = random.between(kMs / 50, 2 * kMs);
  return machine;
}

int64_t length_of(FaultKind kind, Random& random, const Schedule& schedule) {
  switch (kind) {
    case FaultKind::kPause:
    case FaultKind::kTrainer:
    case FaultKind::kPartition:  // shorter and longer than the silence that a connection survives
      return random.one_in(3) ? random.between(9 * kSecond, 16 * kSecond)
                              : random.between(30 * kMs, 4 * kSecond);
    case FaultKind::kDispatcher:
      return random.one_in(8) ? 60 * kSecond : random.between(kSecond / 2, 5 * kSecond);
    case FaultKind::kLonely:
      return schedule.lonely_ns + random.between(2 * kSecond, 4 * kSecond);
    case FaultKind::kVanish:
      return random.between(kSecond / 10, 12 * kSecond);
    case FaultKind::kConsumer:  // some for so long that silence is noticed
      return random.one_in(8) ? random.between(12 * kSecond, 25 * kSecond)
                              : random.between(30 * kMs, 3 * kSecond);
    default:
      return random.between(30 * kMs, 3 * kSecond);
  }
}

bool fits(FaultKind kind, const Schedule& schedule) {
  switch (kind) {
    case FaultKind::kDispatcher:
    case FaultKind::kJoin:
      return schedule.dispatcher;
    case FaultKind::kDrain:
    case FaultKind::kLeave:
      return schedule.workers.size() >= 2;
    case FaultKind::kChildHangs:
    case FaultKind::kChildDies:
      return schedule.kids > 0;
    case FaultKind::kWindow:
      return schedule.look_ahead > 1 && schedule.steps > 2;
    case FaultKind::kSpareDies:
    case FaultKind::kSpareStops:
    case FaultKind::kSpareYields:
      return schedule.spare;
    case FaultKind::kLonely:
      return schedule.kids == 0 && !schedule.workers.empty();
    case FaultKind::kRetry:
    case FaultKind::kFinal:
    case FaultKind::kConsumer:
    case FaultKind::kTrainer:
    case FaultKind::kResume:
      return true;
    default:
      return !schedule.workers.empty();
  }
}
// A loop that outruns its one or two workers for some seconds, then one that needs hardly one.
void make_elastic(Schedule& out, Random& random) {
  out.workers.resize(std::min<size_t>(out.workers.size(), 2));
  for (Machine& machine : out.workers) machine.row_ns = random.between(20 * kMs, 40 * kMs);
  out.dispatcher = true;
  out.kids = 0;
  out.units = false;
  out.request_rows = 1 + random.roll(4);
  out.look_ahead = 6 + random.roll(4);
  out.batch_rows = out.ranks * (1 + random.roll(4));
  out.step_ns = random.between(0, 2 * kMs);
  out.slow_from = 1200 / out.batch_rows;
  out.slow_ns = kSecond;
  out.steps = out.slow_from + 40;
  out.faults.push_back({FaultKind::kElastic, 0, 0});
}

// One or two workers that are slow against the window, so that there is something for spare ones.
void make_spare(Schedule& out, Random& random) {
  out.spare = true;
  out.kids = 0;
  out.workers.resize(std::min<size_t>(out.workers.size(), 2));
  for (Machine& machine : out.workers) {
    machine.hands = 1;
    machine.row_ns = random.between(30 * kMs, 60 * kMs);
  }
  out.ranks = 1 + random.roll(2);
  out.request_rows = out.units ? 0 : 1;
  out.look_ahead = 20 + random.roll(20);
  out.batch_rows = out.ranks * (2 + random.roll(3));
  out.step_ns = random.between(0, 2 * kMs);
  out.steps = 40 + random.roll(40);
  constexpr auto kFirst = static_cast<uint32_t>(FaultKind::kSpareDies);
  Fault fault;
  fault.kind = static_cast<FaultKind>(kFirst + random.roll(3));
  fault.length_ns = random.between(100 * kMs, 6 * kSecond);
  fault.after = random.roll(out.steps);
  out.faults.push_back(fault);
}
}  // namespace

Schedule make_schedule(uint64_t seed) {
  Random random(mix(seed));
  Schedule out;
  out.seed = seed;
  out.ranks = 1 + std::min(random.roll(8), random.roll(8));
  uint32_t workers = random.one_in(8) ? 0 : 1 + std::min(random.roll(7), random.roll(7));
  out.kids = workers == 0 ? 1 + random.roll(3) : random.one_in(3) ? 1 + random.roll(2) : 0;
  for (uint32_t i = 0; i < workers; ++i) out.workers.push_back(make_machine(random));
  out.dispatcher = workers > 0 && random.one_in(2);
  out.steps = 2 + random.roll(5);
  out.batch_rows = out.ranks * (1 + random.roll(6)) + random.roll(out.ranks);
  out.look_ahead = 1 + random.roll(4);
  out.units = random.one_in(6);
  out.request_rows = out.units ? 0 : 1 + random.roll(4);
  out.window_bytes = 1 << 20;
  out.deadline_ns = random.between(300 * kMs, kSecond);
  out.lonely_ns = 40 * kSecond;
  out.step_ns = random.one_in(3) ? 0 : random.between(0, 20 * kMs);
  const bool is_elastic = workers > 0 && mix(seed ^ 0xe1a5) % 100 == 0;
  if (is_elastic) make_elastic(out, random);
  if (!is_elastic && workers > 0 && mix(seed ^ 0x59a7e) % 20 == 0) make_spare(out, random);
  for (uint32_t wanted = (out.spare ? 0 : 1) + random.roll(4), tries = 0;
       out.faults.size() < wanted && tries < 40; ++tries) {
    auto kind = static_cast<FaultKind>(random.roll(kFaultKinds - 1));
    if (!fits(kind, out) || (is_elastic && (kind == FaultKind::kLonely || kind == FaultKind::kWindow)))
      continue;
    bool once = kind == FaultKind::kWindow || kind == FaultKind::kLonely || kind == FaultKind::kFinal ||
                kind == FaultKind::kRetry;
    if (once &&
        std::any_of(out.faults.begin(), out.faults.end(), [&](auto& one) { return one.kind == kind; }))
      continue;
    if (kind == FaultKind::kLonely) out.lonely_ns = random.between(3 * kSecond, 6 * kSecond);
    Fault fault;
    fault.kind = kind;
    fault.length_ns = length_of(kind, random, out);
    fault.after = random.roll(std::max(1U, out.positions() / (out.units ? out.batch_rows : 4)));
    if (kind == FaultKind::kWindow)
      out.window_bytes = random.between(1, 3 * out.batch_rows * kRowBytes / out.ranks);
    if (kind == FaultKind::kFinal) out.bad_rows.push_back(random.roll(out.positions()));
    if (kind == FaultKind::kRetry)
      for (uint32_t i = 1 + random.roll(3); i > 0; --i)
        out.late_rows.emplace_back(random.roll(out.positions()), 1 + random.roll(3));
    out.faults.push_back(fault);
  }
  return out;
}

std::string Schedule::text() const {
  std::ostringstream out;
  out << "schedule " << seed << ": " << workers.size() << " workers, " << ranks << " ranks with " << kids
      << " children each" << (spare ? " and spare cores" : "") << ", " << steps << " steps of " << batch_rows
      << " rows asked for by " << request_rows << ", look-ahead " << look_ahead << ", window " << window_bytes
      << " B" << (dispatcher ? ", dispatcher" : "");
  for (const Fault& fault : faults)
    out << "\n  " << name_of(fault.kind) << " after " << fault.after << " answers for "
        << fault.length_ns / kMs << " ms";
  return out.str();
}

}  // namespace stoker::feed::simulation
