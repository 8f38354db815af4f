// SPDX-License-Identifier: Apache-2.0
#include "feed/simulation/rank.h"

#include <algorithm>
#include <utility>

namespace stoker::feed::simulation {

namespace {
AssignOptions options_of(const Schedule& schedule) {
  AssignOptions options;
  options.window_bytes = schedule.window_bytes;
  options.request_rows = schedule.request_rows;
  options.deadline_ns = schedule.deadline_ns;
  options.lonely_ns = schedule.lonely_ns;
  return options;
}
}  // namespace

Rank::Rank(World& world, uint32_t index, uint32_t place, uint32_t ranks, uint32_t step)
    : world_(world),
      index_(index),
      place_(place),
      ranks_(ranks),
      first_step_(step),
      next_step_(step),
      assigner_(options_of(world.schedule()), world.now()),
      options_(options_of(world.schedule())),
      lonely_since_(world.now()),
      progress_ns_(world.now()),
      started_ns_(world.now()) {}

void Rank::start() {
  for (uint32_t kid = 0; kid < world_.schedule().kids; ++kid) world_.start_kid(index_);
  if (world_.schedule().spare) world_.start_spare(index_);
  const Schedule& schedule = world_.schedule();
  if (schedule.dispatcher) {
    subscription = world_.dial({Kind::kRank, index_}, {});
  } else {
    listed_ = (uint64_t{1} << schedule.workers.size()) - 1;
    for (uint32_t address = 0; address < schedule.workers.size(); ++address)
      workers_[address] = world_.dial({Kind::kRank, index_}, {Kind::kWorker, address});
  }
  push();
  step(false);
}

void Rank::end() {
  over_ = true;
  if (subscription != World::kNone) world_.stop_dialing(subscription);
  for (auto [address, dialer] : workers_) world_.stop_dialing(dialer);
  for (auto& [id, endpoint] : endpoints_)
    if (endpoint.in_place || endpoint.spare) world_.kill_kid(endpoint.process, 0);
}

// ---- the trainer

void Rank::push() {
  const Schedule& schedule = world_.schedule();
  if (next_out_ == batches_.size()) cold_ = next_out_;
  for (; next_step_ < schedule.steps && batches_.size() - next_out_ < schedule.look_ahead; ++next_step_) {
    uint64_t all = schedule.batch_rows, first = place_ * all / ranks_, last = (place_ + 1) * all / ranks_;
    Batch batch;
    batch.position = static_cast<uint32_t>(next_step_ * all + first);
    batch.rows = batch.rows_left = static_cast<uint32_t>(last - first);
    batch.bytes = schedule.units ? unit_estimate_ : batch.rows * kRowBytes;
    if (assigner_.push(batch.rows, batch.bytes) != batches_.size())
      world_.wrong("batches are numbered otherwise");
    batches_.push_back(batch);
  }
}

void Rank::consume() {
  if (over_) return;
  if (stalled_until_ns > world_.now()) return world_.consume_at(index_, stalled_until_ns);
  waits_ = next_out_ == batches_.size() || !batches_[next_out_].ready;
  if (waits_) {
    if (wait_since_ < 0 && next_out_ < batches_.size() && next_out_ != cold_) wait_since_ = world_.now();
    return;
  }
  Batch& batch = batches_[next_out_];
  if (wait_since_ >= 0) wait_ns_ += world_.now() - std::exchange(wait_since_, -1);
  if (first_taken_ns_ < 0) first_taken_ns_ = world_.now();
  rows_taken_ += batch.rows;
  if (stall_fault >= 0 && batch.ready_ns < stalled_until_ns) world_.hit(stall_fault);
  batch.taken = true;
  world_.taken(place_, batch.position, batch.rows, batch.failed);
  if (assigner_.done(next_out_) == (batch.rows_left > 0)) world_.wrong("done() is not what has come");
  assigner_.delivered(next_out_);
  window_used_ -= batch.bytes;
  for (auto at = model_.lower_bound({next_out_, 0}); at != model_.end() && at->first.batch == next_out_;) {
    at->second.done = true;
    cancel_others(at->first);
    at = at->second.askers.empty() ? model_.erase(at) : std::next(at);
  }
  ++next_out_;
  progress_ns_ = world_.now();
  push();
  step(false);
  world_.consume_at(index_, world_.now() + world_.schedule().step_ns_at(taken_steps()));
}

std::optional<Sizing::Consumer> Rank::use() const {
  if (first_taken_ns_ < 0) return {};
  const int64_t now = world_.now(), waited = wait_ns_ + (wait_since_ >= 0 ? now - wait_since_ : 0);
  return Sizing::Consumer{rows_taken_, static_cast<double>(waited) / kSecond,
                          static_cast<double>(now - first_taken_ns_) / kSecond};
}

void Rank::ready(BatchId id) {
  Batch& batch = batches_[id];
  if (std::exchange(batch.ready, true)) return;
  batch.ready_ns = world_.now();
  if (id == next_out_ && std::exchange(waits_, false)) world_.consume_at(index_, world_.now());
}

void Rank::fail(BatchId id) {
  Batch& batch = batches_[id];
  if (batch.ready) return;
  batch.failed = true;
  ++world_.tally().failed_batches;
  if (world_.verbose()) world_.say("batch " + std::to_string(id) + " has failed");
  ready(id);
}

// ---- deciding and asking

void Rank::step(bool timed) {
  if (over_) return;
  ++wake_serial_;
  int64_t now = world_.now();
  Decisions decisions = assigner_.decide(now);
  ++world_.tally().decides;
  world_.tally().timed_decides += timed;
  timed_ += timed;
  check(decisions);
  if (!decisions.give_up.empty()) {
    over_ = true;
    return world_.gave_up();
  }
  for (const Ask& one : decisions.ask) ask(one);
  for (const Ask& one : decisions.cancel) {
    auto found = endpoints_.find(one.endpoint);
    if (found == endpoints_.end()) return world_.wrong("a cancel for an endpoint that is gone");
    ++world_.tally().cancelled;
    for (auto [request, range] : found->second.asked) {
      if (range != one.range) continue;
      Message message;
      message.say = Say::kCancel;
      message.request = request;
      message.range = range;
      world_.send(found->second.connection, true, message);
    }
  }
  for (EndpointId id : decisions.expel) {
    Endpoint& kid = endpoints_.at(id);
    kid.expelled = true;
    world_.hit(world_.end_fault(kid.connection));
    world_.kill_kid(kid.process, world_.random().one_in(2) ? 0 : world_.random().between(0, 200 * kMs));
  }
  check_counts();
  auto wake = assigner_.wake_at(now);
  if (wake && *wake <= now) world_.wrong("wakes at once, for ever");
  if (wake) world_.wake_rank(index_, wake_serial_, *wake);
  constexpr int64_t kTogetherNs = 20 * kMs;  // what falls due before may wait until then
  if ((wake && *wake == now + kTogetherNs) || !world_.random().one_in(8)) return;
  int64_t until = std::min(wake.value_or(now + 2 * kSecond), now + 2 * kSecond) - 1;
  if (until > now) world_.probe_rank(index_, wake_serial_, world_.random().between(now + 1, until));
}

void Rank::wake(uint32_t serial) {
  if (serial == wake_serial_) step(true);
}

// Between two events nothing falls due before wake_at().
void Rank::probe(uint32_t serial) {
  if (serial != wake_serial_ || over_) return;
  Decisions early = assigner_.decide(world_.now());
  if (early.ask.empty() && early.admit.empty() && early.cancel.empty() && early.expel.empty() &&
      early.give_up.empty())
    return;
  world_.wrong("rank " + std::to_string(index_) + " would have slept through a decision" +
               (early.ask.empty() ? ""
                                  : ": " + name(early.ask[0].range) + " of endpoint " +
                                        std::to_string(early.ask[0].endpoint)));
}

void Rank::ask(const Ask& one) {
  Endpoint& endpoint = endpoints_.at(one.endpoint);
  const Batch& batch = batches_[one.range.batch];
  Range& range = model_[one.range];
  Message message;
  message.say = Say::kRequest;
  message.request = endpoint.next_request++;
  message.range = one.range;
  message.position = batch.position + one.range.first;
  message.rows = range.rows;
  endpoint.asked[message.request] = one.range;
  if (world_.verbose()) world_.say(name(one.range) + " is asked of endpoint " + std::to_string(one.endpoint));
  world_.send(endpoint.connection, true, message);
}

// ---- workers come and go

void Rank::up(uint32_t, uint32_t connection, uint32_t address, uint32_t hands) {
  EndpointId id = next_endpoint_++;
  Endpoint endpoint;
  endpoint.id = id;
  endpoint.connection = connection;
  endpoints_[id] = std::move(endpoint);
  if (world_.verbose())
    world_.say("rank " + std::to_string(index_) + ": worker " + std::to_string(address) + " is endpoint " +
               std::to_string(id));
  assigner_.joined(id, false, hands, world_.now());
  step(false);
}

void Rank::down(uint32_t dialer, uint32_t connection) {
  if (over_) return;
  if (Endpoint* endpoint = endpoint_of(connection)) endpoint_gone(endpoint->id);
  for (auto [address, one] : std::map(workers_)) {
    if (one != dialer || (listed_ >> address & 1)) continue;
    world_.stop_dialing(dialer);
    workers_.erase(address);
  }
  step(false);
}

void Rank::endpoint_gone(EndpointId id) {
  Endpoint endpoint = std::move(endpoints_.at(id));
  endpoints_.erase(id);
  if (!endpoint.asked.empty() && !endpoint.draining) world_.hit(world_.end_fault(endpoint.connection));
  if (world_.verbose())
    world_.say("rank " + std::to_string(index_) + ": endpoint " + std::to_string(id) + " is gone");
  if (!endpoint.spare && helpers() == 0) lonely_since_ = world_.now();
  counts_.lost += !endpoint.spare && !(endpoint.draining && endpoint.asked.empty());
  ++world_.tally().lost;
  std::vector<RangeId> hopeless;
  for (auto [request, asked] : endpoint.asked) {
    Range& range = model_.at(asked);
    const bool was_tried = !endpoint.in_place || request == endpoint.asked.begin()->first;
    drop_asker(asked, id);
    if (!endpoint.spare && !range.done && helpers_of(range) == 0) {
      ++counts_.retried;
      if (was_tried && ++range.attempts >= options_.max_attempts) hopeless.push_back(asked);
    }
    forget_if_over(asked);
  }
  std::vector<RangeId> told = assigner_.lost(id, world_.now());
  std::sort(hopeless.begin(), hopeless.end());
  if (told != hopeless) world_.wrong("lost() names other ranges than those that failed too often");
  for (RangeId range : told) fail(range.batch);
}

void Rank::kid_ready(uint32_t process, uint32_t connection, bool spare) {
  EndpointId id = next_endpoint_++;
  Endpoint endpoint;
  endpoint.id = id;
  endpoint.connection = connection;
  endpoint.process = process;
  endpoint.in_place = !spare;
  endpoint.spare = spare;
  endpoints_[id] = std::move(endpoint);
  if (spare)
    assigner_.spare_joined(id, 1, world_.now());
  else
    assigner_.joined(id, true, 1, world_.now());
  step(false);
}

void Rank::kid_dead(uint32_t process) {
  bool spare = world_.schedule().spare;
  for (auto& [id, endpoint] : endpoints_) {
    if (endpoint.process != process) continue;
    endpoint_gone(id);
    break;
  }
  spare ? world_.start_spare(index_) : world_.start_kid(index_);
  step(false);
}

void Rank::let_spare(bool take_part) {
  if (over_) return;
  spare_takes_part_ = take_part;
  if (!take_part)
    for (auto& [id, range] : model_)
      if (!range.done) withdraw(id, range);
  assigner_.let_spare(take_part);
  step(false);
}

// ---- what comes

Rank::Endpoint* Rank::endpoint_of(uint32_t connection) {
  for (auto& [id, endpoint] : endpoints_)
    if (endpoint.connection == connection) return &endpoint;
  return nullptr;
}

bool Rank::is_owed(uint32_t connection) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& entry) {
    return entry.second.connection == connection && !entry.second.asked.empty();
  });
}

void Rank::hears(uint32_t connection, const Message& message) {
  if (over_) return;
  if (message.say == Say::kView) {
    ++world_.tally().views;
    listed_ = message.addresses;
    for (auto [address, dialer] : std::map(workers_)) {
      bool is_up = std::any_of(endpoints_.begin(), endpoints_.end(), [&, one = dialer](const auto& entry) {
        return entry.second.process == World::kNone && world_.dialer_of(entry.second.connection) == one;
      });
      if (is_up || (listed_ >> address & 1)) continue;
      world_.stop_dialing(dialer);
      workers_.erase(address);
    }
    for (uint32_t address = 0; address < 26; ++address)
      if ((listed_ >> address & 1) && workers_.count(address) == 0)
        workers_[address] = world_.dial({Kind::kRank, index_}, {Kind::kWorker, address});
    return;
  }
  Endpoint* endpoint = endpoint_of(connection);
  if (!endpoint) return;
  if (message.say == Say::kGoodbye) {
    world_.hit(message.fault);
    endpoint->draining = true;
    assigner_.draining(endpoint->id);
    return step(false);
  }
  auto asked = endpoint->asked.find(message.request);
  if (asked == endpoint->asked.end()) {
    if (message.say == Say::kCancelled || message.say == Say::kError) return;
    world_.hit(message.fault);
    return breached(*endpoint, message);
  }
  if (message.say == Say::kRows) return rows_came(*endpoint, message);
  endpoint->asked.erase(asked);
  drop_asker(message.range, endpoint->id);
  if (message.say == Say::kError)
    row_failed(*endpoint, message);
  else
    assigner_.cancelled(message.range, endpoint->id, world_.now());
  forget_if_over(message.range);
  step(false);
}

// An answer to no question: the connection ends, as in ClientCore::answer_target().
void Rank::breached(const Endpoint& endpoint, const Message& message) {
  auto range = model_.find(message.range);
  bool asks = range != model_.end() &&
              std::count(range->second.askers.begin(), range->second.askers.end(), endpoint.id);
  if (!asks && assigner_.answered(message.range, endpoint.id, world_.now()) != Assigner::Verdict::kUnasked)
    world_.wrong("an answer that nobody asked for has counted");
  world_.drop(endpoint.connection);
}

void Rank::rows_came(Endpoint& endpoint, const Message& message) {
  RangeId id = message.range;
  Range& range = model_.at(id);
  if (assigner_.answered_already(id) != range.done)
    world_.wrong(name(id) + ": answered_already() is not what came");
  if (message.corrupt && !range.done) {
    world_.hit(message.fault);
    return world_.drop(endpoint.connection);
  }
  endpoint.asked.erase(message.request);
  drop_asker(id, endpoint.id);
  auto verdict = assigner_.answered(id, endpoint.id, world_.now());
  if (verdict != (range.done ? Assigner::Verdict::kAgain : Assigner::Verdict::kFirst))
    return world_.wrong(name(id) + ": the verdict on an answer is wrong");
  if (range.done) {
    counts_.dropped += !endpoint.spare;
    ++world_.tally().again;
  } else {
    range.done = true;
    cancel_others(id);
    Batch& batch = batches_[id.batch];
    if (message.value != world_.expected(batch.position + id.first, range.rows))
      world_.wrong(name(id) + " has other bytes");
    progress_ns_ = world_.now();
    world_.hit(world_.join_fault(endpoint.connection));
    world_.counted();
    unit_came(id);
    batch.rows_left -= range.rows;
    if (batch.rows_left == 0) ready(id.batch);
  }
  forget_if_over(id);
  step(false);
}

// As ClientCore::unit_size_known().
void Rank::unit_came(RangeId id) {
  if (!world_.schedule().units) return;
  auto set = [&](BatchId other, uint64_t bytes) {
    Batch& batch = batches_[other];
    if (batch.admitted) window_used_ += bytes - batch.bytes;
    batch.bytes = bytes;
    assigner_.set_bytes(other, bytes);
  };
  uint64_t bytes = batches_[id.batch].rows * kRowBytes;
  if (bytes > unit_estimate_) {
    unit_estimate_ = bytes;
    for (BatchId other = next_out_; other < batches_.size(); ++other)
      if (!batches_[other].ready) set(other, bytes);
  }
  set(id.batch, bytes);
}

void Rank::row_failed(Endpoint& endpoint, const Message& message) {
  RangeId id = message.range;
  Range& range = model_.at(id);
  auto failure = assigner_.failed(id, endpoint.id, message.retry, world_.now());
  auto expected = Assigner::Failure::kIgnored;
  if (!range.done && !endpoint.spare) {
    bool is_final = !message.retry || ++range.attempts >= options_.max_attempts;
    expected = is_final ? Assigner::Failure::kFinal : Assigner::Failure::kRetried;
    counts_.retried += !is_final;
  }
  if (failure != expected) world_.wrong(name(id) + ": a failure was taken for another kind");
  if (failure == Assigner::Failure::kRetried) world_.hit(FaultKind::kRetry);
  if (failure != Assigner::Failure::kFinal) return;
  if (!message.retry) world_.hit(FaultKind::kFinal);
  progress_ns_ = world_.now();
  fail(id.batch);
}

}  // namespace stoker::feed::simulation
