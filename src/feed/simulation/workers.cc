// SPDX-License-Identifier: Apache-2.0
// Worker processes, distant ones and children: requests by lowest batch first, answers, ends.
#include <algorithm>
#include <utility>

#include "feed/simulation/rank.h"
#include "feed/simulation/world.h"

namespace stoker::feed::simulation {
namespace {
constexpr int64_t kReportNs = 500 * kMs;
constexpr int64_t kDrainNs = 5 * kSecond;
}  // namespace

uint32_t World::start_process(uint32_t address, const Machine& machine) {
  Process process;
  process.address = address;
  process.machine = machine;
  process.hands.resize(machine.hands);
  processes_.push_back(std::move(process));
  return static_cast<uint32_t>(processes_.size() - 1);
}

uint32_t World::start_kid(uint32_t rank) {
  Machine machine{1, random_.between(kMs / 4, 4 * kMs), kMs / 50};
  uint32_t index = start_process(kNone, machine);
  Process& kid = processes_[index];
  kid.rank = rank;
  kid.connection = static_cast<uint32_t>(connections_.size());
  Connection connection;
  connection.near = {Kind::kRank, rank};
  connection.far = {Kind::kWorker, kNone};
  connection.process = index;
  connections_.push_back(std::move(connection));
  at(now_ + random_.between(20 * kMs, 400 * kMs), What::kKidReady, index);
  return index;
}

uint32_t World::start_spare(uint32_t rank) {
  uint32_t index = start_kid(rank);
  processes_[index].spare = true;
  processes_[index].machine.row_ns = random_.between(10 * kMs, 60 * kMs);
  return index;
}

void World::worker_hears(uint32_t index, uint32_t connection, const Message& message) {
  Process& process = processes_[index];
  if (!process.alive) return;
  if (message.say == Say::kRequest) {
    process.waiting.push_back({connection, message, arrivals_++, true});
    return fill(process, index);
  }
  if (message.say != Say::kCancel) return;
  Message cancelled = message;
  cancelled.say = Say::kCancelled;
  auto is_meant = [&](const Job& job) {
    return job.busy && job.connection == connection && job.request.request == message.request;
  };
  auto waiting = std::find_if(process.waiting.begin(), process.waiting.end(), is_meant);
  if (waiting != process.waiting.end()) {
    process.waiting.erase(waiting);
    return send(connection, false, cancelled);
  }
  auto hand = std::find_if(process.hands.begin(), process.hands.end(), is_meant);
  if (hand == process.hands.end() || random_.one_in(2)) return;  // too late
  hand->connection = kNone;
  send(connection, false, cancelled);
}

void World::fill(Process& process, uint32_t index) {
  if (process.hangs) return;
  for (uint32_t hand = 0; hand < process.hands.size() && !process.waiting.empty(); ++hand) {
    if (process.hands[hand].busy) continue;
    auto lowest =
        std::min_element(process.waiting.begin(), process.waiting.end(), [](const Job& a, const Job& b) {
          return std::pair(a.request.range.batch, a.arrival) < std::pair(b.request.range.batch, b.arrival);
        });
    process.hands[hand] = *lowest;
    process.waiting.erase(lowest);
    int64_t usual = process.hands[hand].request.rows * process.machine.row_ns;
    int64_t work = process.hands[hand].work_ns = random_.between(usual / 2, usual * 3 / 2);
    at(now_ + work, What::kFinish, index, hand);
  }
}

void World::finished(uint32_t index, uint32_t hand) {
  Process& process = processes_[index];
  if (!process.alive || process.hangs) return;
  if (process.paused) {
    hit(process.pause_fault);
    process.deferred.push_back(hand);
    return;
  }
  Job job = process.hands[hand];
  process.hands[hand].busy = false;
  process.made += job.request.rows;
  process.cpu_s += static_cast<double>(job.work_ns) / kSecond;
  if (job.connection != kNone) answer(index, job);
  fill(processes_[index], index);
}

void World::answer(uint32_t index, const Job& job) {
  Process& process = processes_[index];
  Message out = job.request;
  out.say = Say::kRows;
  for (uint32_t position = out.position; position < out.position + out.rows; ++position) {
    if (bad_[position] == 0 && late_[position] == 0) continue;
    out.say = Say::kError;
    out.retry = bad_[position] == 0;
    if (out.retry) --late_[position];
    return send(job.connection, false, out);
  }
  out.value = expected(out.position, out.rows);
  if (int fault = std::exchange(process.corrupt_fault, -1); fault >= 0) {
    out.corrupt = true;
    out.fault = fault;
  }
  send(job.connection, false, out);
  if (int fault = std::exchange(process.duplicate_fault, -1); fault >= 0) {
    out.fault = fault;
    out.corrupt = false;
    repeats_.push_back({out, job.connection, false});
    at(now_ + random_.between(kMs, 200 * kMs), What::kAgain, static_cast<uint32_t>(repeats_.size() - 1));
  }
}

void World::session_over(Process& process, uint32_t connection) {
  std::erase_if(process.waiting, [&](const Job& job) { return job.connection == connection; });
  for (Job& job : process.hands)
    if (job.connection == connection) job.connection = kNone;
}

void World::report(uint32_t index) {
  Process& process = processes_[index];
  if (!process.alive || process.draining || process.dialer == kNone) return;
  uint32_t connection = dialers_[process.dialer].connection;
  Message message;
  message.say = Say::kRegister;
  if (!process.paused && connection != kNone) send(connection, true, message);
  if (process.reports_at_ns > now_) return;  // a tick, not the one more when a connection comes up
  process.reports_at_ns = now_ + kReportNs;
  at(process.reports_at_ns, What::kReport, index);
}

void World::continue_process(uint32_t index) {
  Process& process = processes_[index];
  process.paused = false;
  last_trouble_ns_ = now_;
  if (!process.alive) return;
  say("a worker goes on");
  for (uint32_t connection = 0; connection < connections_.size(); ++connection)
    if (connections_[connection].process == index) unblock(connection);
  for (uint32_t hand : std::exchange(process.deferred, {})) finished(index, hand);
}

void World::end_process(uint32_t index, bool silently) {
  Process& process = processes_[index];
  process.alive = false;
  process.reachable = !silently;
  if (process.dialer != kNone) {
    dialers_[process.dialer].stopped = true;
    dialers_[process.dialer].connection = kNone;
  }
  for (uint32_t connection = 0; connection < connections_.size(); ++connection) {
    if (connections_[connection].process != index) continue;
    bool is_near = connections_[connection].near.kind == Kind::kWorker;
    if (!connections_[connection].up[is_near ? 0 : 1]) continue;
    if (silently) {
      connections_[connection].up[is_near ? 0 : 1] = false;
      connections_[connection].ended_ns = now_;
      block(connection);
    } else {
      close(connection, is_near);
    }
  }
}

// At the address of one that has ended. Ranks are told so when they send something along their connection;
// the dispatcher sends nothing.
void World::restart(uint32_t address) {
  uint32_t old = process_at(address);
  say("worker " + std::to_string(address) + " starts again");
  Message closed;
  closed.say = Say::kClosed;
  if (!processes_[old].reachable)
    for (uint32_t connection = 0; connection < connections_.size(); ++connection)
      if (connections_[connection].process == old && connections_[connection].far.kind == Kind::kWorker)
        transmit(connection, false, closed);
  uint32_t process = start_process(address, machines_[address]);
  if (schedule_.dispatcher) processes_[process].dialer = dial({Kind::kWorker, address}, {});
}

void World::drained(uint32_t index, uint32_t tries) {
  Process& process = processes_[index];
  if (!process.alive) return;
  bool busy = !process.waiting.empty() || std::any_of(process.hands.begin(), process.hands.end(),
                                                      [](const Job& job) { return job.busy; });
  if (busy && tries * 20 * kMs < kDrainNs) return at(now_ + 20 * kMs, What::kDrained, index, tries + 1);
  say("a drained worker leaves");
  end_process(index, false);
}

void World::kill_kid(uint32_t index, int64_t delay_ns) { at(now_ + delay_ns, What::kKidDead, index); }

void World::kid_died(uint32_t index) {
  Process& kid = processes_[index];
  if (!std::exchange(kid.alive, false)) return;
  connections_[kid.connection].up[0] = connections_[kid.connection].up[1] = false;
  if (!ranks_[kid.rank]->over()) {
    if (kid.end_fault >= 0 && ranks_[kid.rank]->is_owed(kid.connection)) hit(kid.end_fault);
    ranks_[kid.rank]->kid_dead(index);
  }
}

bool World::hangs(uint32_t index) const { return processes_[connections_[index].process].hangs; }

bool World::works_for(uint32_t index) const {
  const Connection& connection = connections_[index];
  const Process& process = processes_[connection.process];
  return connection.up[0] && connection.up[1] && process.alive && !process.paused && !process.hangs &&
         !is_cut(connection.near, connection.far);
}

int World::end_fault(uint32_t connection) const {
  return processes_[connections_[connection].process].end_fault;
}
int World::join_fault(uint32_t connection) const {
  return processes_[connections_[connection].process].join_fault;
}

}  // namespace stoker::feed::simulation
