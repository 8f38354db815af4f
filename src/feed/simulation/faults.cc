// SPDX-License-Identifier: Apache-2.0
// What goes wrong: each fault strikes once enough answers have counted and there is somebody for it to
// strike.
#include <algorithm>

#include "feed/simulation/rank.h"
#include "feed/simulation/world.h"

namespace stoker::feed::simulation {

void World::strike_due() {
  for (size_t index = 0; index < faults_.size(); ++index) {
    if (faults_[index].struck || faults_[index].after > counted_ || !breach_.empty()) continue;
    faults_[index].struck = strike(index);
    if (faults_[index].struck && verbose_) say(std::string("* ") + name_of(faults_[index].kind));
  }
}

// One of the distant workers that are there and for which it holds; kNone without one.
template <typename Holds>
uint32_t World::pick(Holds holds) {
  std::vector<uint32_t> candidates;
  for (uint32_t index = 0; index < processes_.size(); ++index) {
    const Process& process = processes_[index];
    if (process.rank == kNone && process.alive && !process.paused && !process.draining && holds(process))
      candidates.push_back(index);
  }
  return candidates.empty() ? kNone : candidates[random_.roll(static_cast<uint32_t>(candidates.size()))];
}

namespace {
template <typename Process>
bool is_busy(const Process& process) {
  return !process.waiting.empty() ||
         std::any_of(process.hands.begin(), process.hands.end(),
                     [](const auto& job) { return job.busy && job.connection != World::kNone; });
}
}  // namespace

bool World::strike(size_t index) {
  const Fault fault = faults_[index];
  int name = static_cast<int>(index);
  switch (fault.kind) {
    case FaultKind::kPartition:
    case FaultKind::kSlowLink:
      return strike_link(fault.kind, name, fault);
    case FaultKind::kChildHangs:
    case FaultKind::kChildDies:
      return strike_kid(fault.kind, name);
    case FaultKind::kSpareDies:
    case FaultKind::kSpareStops:
    case FaultKind::kSpareYields:
      return strike_spare(fault.kind, name, fault);
    case FaultKind::kDispatcher:
      return end_dispatcher(name, fault);
    case FaultKind::kConsumer: {
      uint32_t count = static_cast<uint32_t>(ranks_.size()) - first_rank_;
      Rank& rank = *ranks_[first_rank_ + random_.roll(count)];
      if (rank.done()) return false;
      rank.stalled_until_ns = now_ + fault.length_ns;
      rank.stall_fault = name;
      return true;
    }
    case FaultKind::kTrainer: {
      uint32_t count = static_cast<uint32_t>(ranks_.size()) - first_rank_;
      uint32_t index = first_rank_ + random_.roll(count);
      Rank& rank = *ranks_[index];
      if (rank.done() || rank.stopped_until_ns > now_) return false;
      rank.stopped_until_ns = now_ + fault.length_ns;
      rank.stopped_ns = fault.length_ns;
      rank.stop_fault = name;
      at(rank.stopped_until_ns, What::kRankOn, index);
      return true;
    }
    case FaultKind::kResume:
      return resume_ranks(1 + random_.roll(std::min(8U, schedule_.batch_rows)), name);
    case FaultKind::kJoin: {
      if (machines_.size() >= 26) return false;
      add_worker({1 + random_.roll(3), random_.between(kMs / 4, 2 * kMs), kMs / 5}, name);
      return true;
    }
    case FaultKind::kElastic:
      elastic_fault_ = name;
      return true;
    case FaultKind::kWindow:
    case FaultKind::kRetry:
    case FaultKind::kFinal:
      return true;  // are there from the start
    default:
      return strike_worker(fault.kind, name, fault);
  }
}

bool World::strike_worker(FaultKind kind, int name, const Fault& fault) {
  if (kind == FaultKind::kLonely) {
    if (pick([](const Process& one) { return is_busy(one); }) == kNone) return false;
    for (uint32_t index = 0; index < processes_.size(); ++index) {
      if (!processes_[index].alive || processes_[index].rank != kNone) continue;
      end_process(index, false);
      at(now_ + fault.length_ns, What::kRestart, processes_[index].address);
    }
    return true;
  }
  if (kind == FaultKind::kLeave || kind == FaultKind::kDrain) {
    auto staying = std::count_if(processes_.begin(), processes_.end(), [](const Process& one) {
      return one.rank == kNone && one.alive && !one.draining;
    });
    if (staying < 2) return false;
  }
  uint32_t index = pick([](const Process& one) { return is_busy(one); });
  if (index == kNone) return false;
  Process& process = processes_[index];
  switch (kind) {
    case FaultKind::kKill:
    case FaultKind::kVanish:
      process.end_fault = name;
      end_process(index, kind == FaultKind::kVanish);
      at(now_ + fault.length_ns, What::kRestart, process.address);
      return true;
    case FaultKind::kLeave:
      process.end_fault = name;
      end_process(index, false);
      return true;
    case FaultKind::kDrain:
      drain_worker(index, name);
      return true;
    case FaultKind::kPause:
      process.paused = true;
      process.pause_fault = name;
      for (uint32_t connection = 0; connection < connections_.size(); ++connection)
        if (connections_[connection].process == index && connections_[connection].far.kind == Kind::kWorker)
          block(connection);
      at(now_ + fault.length_ns, What::kContinue, index);
      return true;
    case FaultKind::kCorrupt:
      process.corrupt_fault = name;
      return true;
    default:
      process.duplicate_fault = name;
      return true;
  }
}

bool World::strike_link(FaultKind kind, int name, const Fault& fault) {
  uint32_t process = pick([](const Process& one) { return is_busy(one); });
  if (process == kNone) return false;
  uint32_t rank = first_rank_ + random_.roll(static_cast<uint32_t>(ranks_.size()) - first_rank_);
  Cut cut;
  cut.a = {Kind::kWorker, processes_[process].address};
  cut.b = {Kind::kRank, rank};
  cut.whole = random_.one_in(3);
  cut.fault = name;
  if (kind == FaultKind::kSlowLink) {
    cut.slow_ns = random_.between(20 * kMs, 800 * kMs);
  } else if (schedule_.dispatcher && random_.one_in(4)) {
    cut = {{Kind::kDispatcher, 0}, cut.b, random_.one_in(2), name};
  }
  cuts_.push_back(cut);
  if (kind == FaultKind::kPartition)
    for (uint32_t connection = 0; connection < connections_.size(); ++connection)
      if (cut.concerns(connections_[connection].near, connections_[connection].far)) block(connection);
  at(now_ + fault.length_ns, What::kHeal, static_cast<uint32_t>(cuts_.size() - 1));
  return true;
}

bool World::strike_kid(FaultKind kind, int name) {
  std::vector<uint32_t> candidates;
  for (uint32_t index = 0; index < processes_.size(); ++index) {
    const Process& kid = processes_[index];
    if (kid.rank != kNone && !kid.spare && kid.alive && !kid.hangs && is_busy(kid) &&
        !ranks_[kid.rank]->over())
      candidates.push_back(index);
  }
  if (candidates.empty()) return false;
  uint32_t index = candidates[random_.roll(static_cast<uint32_t>(candidates.size()))];
  processes_[index].end_fault = name;
  if (kind == FaultKind::kChildHangs) {
    processes_[index].hangs = true;
  } else {
    kid_died(index);
  }
  return true;
}

// One that works.
bool World::strike_spare(FaultKind kind, int name, const Fault& fault) {
  std::vector<uint32_t> candidates;
  for (uint32_t index = 0; index < processes_.size(); ++index) {
    const Process& one = processes_[index];
    if (one.spare && one.alive && !one.paused && !ranks_[one.rank]->over() &&
        ranks_[one.rank]->stopped_until_ns <= now_ && ranks_[one.rank]->is_owed(one.connection))
      candidates.push_back(index);
  }
  if (candidates.empty()) return false;
  uint32_t index = candidates[random_.roll(static_cast<uint32_t>(candidates.size()))];
  Process& process = processes_[index];
  if (kind == FaultKind::kSpareYields) {
    hit(name);
    at(now_ + fault.length_ns, What::kSpareOn, process.rank);
    ranks_[process.rank]->let_spare(false);
  } else if (kind == FaultKind::kSpareStops) {
    process.paused = true;
    process.pause_fault = name;
    at(now_ + fault.length_ns, What::kContinue, index);
  } else {
    process.end_fault = name;
    kid_died(index);
  }
  return true;
}

bool World::end_dispatcher(int name, const Fault& fault) {
  if (!membership_) return false;
  membership_.reset();
  sizing_.reset();
  ++dispatcher_life_;
  dispatcher_fault_ = name;
  for (uint32_t connection = 0; connection < connections_.size(); ++connection)
    if (connections_[connection].far.kind == Kind::kDispatcher) close(connection, false);
  at(now_ + fault.length_ns, What::kDispatcherBack);
  return true;
}

void World::start_ranks(uint32_t ranks, uint32_t step) {
  world_size_ = ranks;
  checkpoint_ = step;
  first_rank_ = static_cast<uint32_t>(ranks_.size());
  for (uint32_t place = 0; place < ranks; ++place)
    ranks_.push_back(std::make_unique<Rank>(*this, first_rank_ + place, place, ranks, step));
  for (uint32_t rank = first_rank_; rank < ranks_.size(); ++rank) ranks_[rank]->start();
}

// All trainers end; what they have taken since the step of their checkpoint is taken again.
bool World::resume_ranks(uint32_t ranks, int name) {
  uint32_t least = schedule_.steps;
  for (size_t rank = first_rank_; rank < ranks_.size(); ++rank)
    least = std::min(least, ranks_[rank]->taken_steps());
  if (name >= 0 && (least == checkpoint_ || remaining() == 0)) return false;
  uint32_t step = checkpoint_ + random_.roll(least - checkpoint_ + 1);
  say("resumes at step " + std::to_string(step) + " with " + std::to_string(ranks) + " ranks");
  for (size_t rank = first_rank_; rank < ranks_.size(); ++rank) ranks_[rank]->end();
  std::fill(taken_.begin() + step * schedule_.batch_rows, taken_.end(), 0);
  if (name >= 0) resume_fault_ = name;
  start_ranks(ranks, step);
  return true;
}

}  // namespace stoker::feed::simulation
