// SPDX-License-Identifier: Apache-2.0
#include "feed/simulation/world.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "feed/simulation/rank.h"

namespace stoker::feed::simulation {
namespace {
constexpr int64_t kWatchNs = 10 * kSecond;
constexpr int64_t kLongest = 1200 * kSecond;
constexpr uint64_t kMostEvents = 400'000;
}  // namespace

void Tally::add(const Tally& other) {
  decides += other.decides, timed_decides += other.timed_decides, asked += other.asked,
      hedged += other.hedged, lent += other.lent;
  again += other.again, cancelled += other.cancelled, lost += other.lost, views += other.views;
  grown += other.grown, shrunk += other.shrunk;
  events += other.events, give_ups += other.give_ups, failed_batches += other.failed_batches;
  simulated_ns += other.simulated_ns;
}

std::string Tally::text() const {
  std::ostringstream out;
  out << events << " events in " << simulated_ns / kSecond << " simulated s; " << decides << " decisions, "
      << timed_decides << " of them by time; " << asked << " asked, " << hedged << " of them hedges, " << lent
      << " lent to spare workers, " << again << " answers too late, " << cancelled << " cancelled, " << lost
      << " endpoints lost, " << failed_batches << " batches failed, " << give_ups << " gave up, " << views
      << " views, " << grown << " workers came because they were wanted and " << shrunk
      << " left because they were not";
  return out.str();
}

World::World(const Schedule& schedule, bool verbose)
    : schedule_(schedule),
      verbose_(verbose),
      random_(mix(schedule.seed ^ 0x5157)),
      faults_(schedule.faults),
      taken_(schedule.positions()),
      late_(schedule.positions()),
      bad_(schedule.positions()) {
  for (uint32_t position : schedule_.bad_rows) bad_[position] = 1;
  for (auto [position, times] : schedule_.late_rows) late_[position] = times;
}

World::~World() = default;

void World::at(int64_t when, What what, uint32_t a, uint32_t b) {
  events_.push({when, order_++, what, a, b});
}
void World::wake_rank(uint32_t rank, uint32_t serial, int64_t when) { at(when, What::kWake, rank, serial); }
void World::probe_rank(uint32_t rank, uint32_t serial, int64_t when) { at(when, What::kProbe, rank, serial); }
void World::consume_at(uint32_t rank, int64_t when) { at(when, What::kConsume, rank); }

void World::wrong(const std::string& what) {
  if (!breach_.empty()) return;
  breach_ = "at " + std::to_string(static_cast<double>(now_) / 1e6) + " ms: " + what;
  say("WRONG: " + what);
}

void World::say(const std::string& what) const {
  if (verbose_) std::printf("%12.3f  %s\n", static_cast<double>(now_) / 1e6, what.c_str());
}

void World::hit(FaultKind kind) {
  for (Fault& fault : faults_)
    if (fault.kind == kind) fault.hit = true;
}

uint32_t World::rank_of(uint32_t position) const {
  uint64_t row = position % schedule_.batch_rows, all = schedule_.batch_rows;
  for (uint32_t rank = 0; rank < world_size_; ++rank)
    if (row < (rank + 1) * all / world_size_) return rank;
  return kNone;
}

uint64_t World::expected(uint32_t position, uint32_t rows) const {
  uint64_t sum = 0;
  for (uint32_t row = 0; row < rows; ++row) sum += mix(position + row);
  return sum;
}

void World::taken(uint32_t rank, uint32_t position, uint32_t rows, bool failed) {
  bool is_bad = false;
  for (uint32_t at = position; at < position + rows; ++at) {
    is_bad |= bad_[at] != 0;
    if (taken_[at]++ != 0) return wrong("position " + std::to_string(at) + " was delivered twice");
    if (rank_of(at) != rank)
      return wrong("position " + std::to_string(at) + " went to rank " + std::to_string(rank));
  }
  if (is_bad && !failed) wrong("a batch with a row that cannot be made was delivered as whole");
  if (resume_fault_ >= 0) hit(resume_fault_);
}

bool World::run() {
  uint32_t address = 0;
  for (const Machine& machine : schedule_.workers) {
    machines_.push_back(machine);
    start_process(address++, machine);
  }
  if (schedule_.dispatcher) {
    start_dispatcher();
  }
  start_ranks(schedule_.ranks, 0);
  if (schedule_.window_bytes < (1 << 20))
    for (Fault& fault : faults_) fault.struck |= fault.kind == FaultKind::kWindow;
  for (uint32_t process = 0; process < processes_.size(); ++process)
    if (schedule_.dispatcher && processes_[process].rank == kNone)
      processes_[process].dialer = dial({Kind::kWorker, processes_[process].address}, {});
  at(kWatchNs, What::kWatch);
  while (breach_.empty() && remaining() > 0) {
    if (events_.empty()) wrong("nothing will happen any more");
    if (events_.empty() || now_ > kLongest || tally_.events > kMostEvents) {
      wrong("it does not end");
      break;
    }
    Event event = events_.top();
    events_.pop();
    now_ = event.at;
    ++tally_.events;
    handle(event);
    if (give_up_ && breach_.empty()) {
      give_up_ = false;
      ++tally_.give_ups;
      hit(FaultKind::kLonely);
      resume_ranks(world_size_, -1);
    }
    strike_due();
  }
  tally_.simulated_ns = now_;
  if (breach_.empty())
    for (uint32_t position = 0; position < taken_.size(); ++position)
      if (taken_[position] != 1) wrong("position " + std::to_string(position) + " was not delivered");
  return breach_.empty();
}

void World::start_dispatcher() {
  membership_.emplace(now_);
  if (schedule_.slow_from != ~0U) sizing_.emplace(now_);
  at(now_, What::kTick, dispatcher_life_);
}

size_t World::remaining() const {
  size_t open = 0;
  for (size_t rank = first_rank_; rank < ranks_.size(); ++rank) open += !ranks_[rank]->done();
  return open;
}

uint32_t World::rank_concerned(const Event& event) const {
  switch (event.what) {
    case What::kWake:
    case What::kConsume:
    case What::kSpareOn:
      return event.a;
    case What::kDial:
    case What::kUp:
    case What::kNoAnswer:
      return dialers_[event.a].owner.kind == Kind::kRank ? dialers_[event.a].owner.index : kNone;
    case What::kKidReady:
    case What::kKidDead:
      return processes_[event.a].rank;
    default:
      return kNone;
  }
}

void World::handle(const Event& event) {
  if (uint32_t rank = rank_concerned(event); rank != kNone && ranks_[rank]->stopped_until_ns > now_)
    return at(ranks_[rank]->stopped_until_ns, event.what, event.a, event.b);
  switch (event.what) {
    case What::kDeliver: {
      Travelling travelling = travelling_[event.a];
      free_.push_back(event.a);
      return deliver(travelling.connection, travelling.from_dialer, travelling.message);
    }
    case What::kDial:
      if (dialers_[event.a].serial == event.b) try_dial(event.a);
      return;
    case What::kUp:
      if (dialers_[event.a].serial == event.b) dialed(event.a, true);
      return;
    case What::kNoAnswer:
      if (dialers_[event.a].serial == event.b) dialed(event.a, false);
      return;
    case What::kSilence:
      return silence(event.a, event.b);
    case What::kFinish:
      return finished(event.a, event.b);
    case What::kContinue:
      return continue_process(event.a);
    case What::kHeal:
      return heal(event.a);
    case What::kWake:
      return ranks_[event.a]->wake(event.b);
    case What::kProbe:
      if (ranks_[event.a]->stopped_until_ns <= now_) ranks_[event.a]->probe(event.b);
      return;
    case What::kRankOn:
      say("a trainer goes on");
      for (uint32_t connection = 0; connection < connections_.size(); ++connection)
        if (connections_[connection].near == Place{Kind::kRank, event.a}) unblock(connection);
      return;
    case What::kSpareOn:
      return ranks_[event.a]->let_spare(true);
    case What::kConsume:
      return ranks_[event.a]->consume();
    case What::kReport:
      return report(event.a);
    case What::kPing:
      if (!connections_[event.b].up[0]) return;
      if (ranks_[event.a]->stopped_until_ns <= now_) send(event.b, true, {});
      return at(now_ + kSecond, What::kPing, event.a, event.b);
    case What::kTick:
      return dispatcher_tick(event.a);
    case What::kRestart:
      return restart(event.a);
    case What::kKidReady:
      if (Process& kid = processes_[event.a]; kid.alive && !ranks_[kid.rank]->over())
        ranks_[kid.rank]->kid_ready(event.a, kid.connection, kid.spare);
      return;
    case What::kKidDead:
      return kid_died(event.a);
    case What::kDispatcherBack:
      say("the dispatcher is back");
      return start_dispatcher();
    case What::kAgain:
      return send(repeats_[event.a].connection, false, repeats_[event.a].message);
    case What::kDrained:
      return drained(event.a, event.b);
    case What::kWatch:
      for (size_t rank = first_rank_; rank < ranks_.size(); ++rank)
        if (ranks_[rank]->stopped_until_ns <= now_) ranks_[rank]->watch();
      return at(now_ + kWatchNs, What::kWatch);
  }
}

}  // namespace stoker::feed::simulation
