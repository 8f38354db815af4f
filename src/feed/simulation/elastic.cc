// SPDX-License-Identifier: Apache-2.0
// A feed group that grows and shrinks: what workers and trainers tell the dispatcher, what its Sizing wants,
// and the machines that come and go by it.
#include <algorithm>

#include "feed/simulation/rank.h"
#include "feed/simulation/world.h"

namespace stoker::feed::simulation {
namespace {
constexpr int64_t kMostWorkers = 7;
constexpr size_t kMostAddresses = 20;  // in a whole run: each machine has its own
constexpr uint32_t kMostResizes = 40;  // more in a minute or two is flapping
}  // namespace

uint32_t World::add_worker(Machine machine, int fault) {
  auto address = static_cast<uint32_t>(machines_.size());
  machines_.push_back(machine);
  uint32_t process = start_process(address, machine);
  processes_[process].join_fault = fault;
  processes_[process].dialer = dial({Kind::kWorker, address}, {});
  return process;
}

void World::drain_worker(uint32_t index, int fault) {
  Process& process = processes_[index];
  process.draining = true;
  process.end_fault = fault;
  if (process.dialer != kNone) stop_dialing(process.dialer);
  for (uint32_t connection = 0; connection < connections_.size(); ++connection) {
    Message goodbye;
    goodbye.say = Say::kGoodbye;
    goodbye.fault = fault;
    if (connections_[connection].process == index && connections_[connection].far.kind == Kind::kWorker)
      send(connection, false, goodbye);
  }
  at(now_, What::kDrained, index, 0);
}

// With each message of theirs.
void World::tell_sizing(uint32_t connection) {
  if (!sizing_) return;
  const Connection& one = connections_[connection];
  if (one.near.kind == Kind::kRank) {
    if (auto use = ranks_[one.near.index]->use()) sizing_->told(Sizing::ConsumerId{connection}, *use, now_);
    return;
  }
  const Process& worker = processes_[one.process];
  sizing_->told(std::string(1, static_cast<char>('A' + worker.address)),
                {"data", static_cast<double>(worker.machine.hands), worker.made, worker.cpu_s}, now_);
}

void World::resize() {
  if (!sizing_) return;
  for (uint32_t address = 0; address < machines_.size(); ++address)
    if ((listed() >> address & 1) == 0)
      sizing_->worker_gone(std::string(1, static_cast<char>('A' + address)), now_);
  const bool changed = sizing_->decide(now_);
  const std::vector<Sizing::Advice> advice = sizing_->advice();
  if (advice.empty()) return;
  if (changed && ++resizes_ > kMostResizes) wrong("the number of workers that is wanted does not settle");
  if (changed && verbose_) say(std::to_string(advice[0].wanted) + " workers are wanted: " + advice[0].reason);
  auto stays = [](const Process& one) { return one.rank == kNone && one.alive && !one.draining; };
  int64_t there = std::count_if(processes_.begin(), processes_.end(), stays);
  const int64_t wanted = std::clamp<int64_t>(advice[0].wanted, 1, kMostWorkers);
  for (; there < wanted && machines_.size() < kMostAddresses; ++there, ++tally_.grown)
    add_worker(machines_[random_.roll(static_cast<uint32_t>(schedule_.workers.size()))], elastic_fault_);
  for (auto index = static_cast<uint32_t>(processes_.size()); index-- > 0 && there > wanted;) {
    if (!stays(processes_[index]) || processes_[index].paused) continue;
    drain_worker(index, -1);
    --there;
    ++tally_.shrunk;
  }
}

}  // namespace stoker::feed::simulation
