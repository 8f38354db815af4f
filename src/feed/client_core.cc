// SPDX-License-Identifier: Apache-2.0
#include "feed/client_core.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/log.h"
#include "feed/reports.h"

namespace stoker::feed {
namespace {
constexpr int64_t kTickNs = 500'000'000;

bool has_spare(const ClientOptions& options) { return !options.spare.commands.empty(); }

AssignOptions assign_options(const ClientOptions& options) {
  AssignOptions assign;
  assign.window_bytes = options.window_bytes;
  assign.request_rows = options.request_rows;
  assign.lonely_ns = options.timeout_ms * 1'000'000;
  assign.deadline_ns = options.deadline_ms * 1'000'000;
  return assign;
}
}  // namespace

Fault fault_of(Error error) {
  Fault fault;
  fault.error = std::move(error);
  return fault;
}

ClientCore::ClientCore(ClientOptions options)
    : options_(std::move(options)),
      pool_(wire::SlotPool::make(!options_.children.empty(), options_.window_bytes + options_.keep_bytes,
                                 true)),
      scratch_(wire::SlotPool::make(has_spare(options_),
                                    options_.window_bytes + (options_.units ? options_.keep_bytes : 0))),
      layout_(options_.layout),
      assigner_(assign_options(options_), monotonic_ns()) {
  plan_ = std::make_shared<SentPlan>(options_.plan, std::exchange(options_.attachment, {}));
}

ClientCore::~ClientCore() { close(); }

Status ClientCore::start() {
  STOKER_ASSIGN(loop_, wire::Loop::make());
  kids_.resize(options_.children.size());
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "stoker-feed");
    // Signals are the trainer's main thread's business.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    loop_->run();
    for (Kid& kid : kids_) {  // in this thread: who starts a child, ends it
      if (!kid.link) continue;
      kid.link->kill();
      kid.cpu_ns += kid.link->cpu_ns();
      kid.link.reset();
    }
    if (spare_) spare_->end();
    publish_stats();
    spare_.reset();
    workers_.clear();
    subscription_.reset();
  });
  loop_->post([this] {
    for (size_t i = 0; i < kids_.size(); ++i) {
      kids_[i].command = options_.children[i];
      if (auto started = start_kid(kids_[i]); !started.ok()) return fail_stream(fault_of(started.error()));
    }
    if (has_spare(options_)) spare_ = std::make_unique<SpareWorkers>(*this, *loop_, scratch_, options_.spare);
    if (!options_.workers.empty()) view_changed(options_.workers);
    if (!options_.dispatcher.empty()) {
      subscription_ = std::make_unique<Subscription>(*this, *loop_, options_.dispatcher, options_.token);
      subscription_->start();
    }
    tick();
  });
  return ok();
}

void ClientCore::close() {
  if (!thread_.joinable()) return;
  shared_.notify([](Shared& shared) { shared.closed = true; });
  loop_->stop();
  thread_.join();
  open_.clear();
  endpoints_.clear();
  loop_.reset();  // nobody posts any more: `closed` is looked at first, under the lock
}

// ---- the trainer's side

Status ClientCore::push(uint64_t id, std::vector<Ref> refs) {
  if (refs.empty() || refs.size() > kMaxRowsInRequest)
    return invalid("a batch of " + std::to_string(refs.size()) + " samples");
  return shared_.with([&](Shared& shared) -> Status {
    if (shared.closed) return Error{Code::kCancelled, "the loader is closed", {}};
    if (id < shared.next_push) return ok();
    if (shared.next_out == shared.next_push) shared.cold = shared.next_push;
    ++shared.next_push;
    // Under the lock, so that pushes reach the loop in the order of their numbers.
    loop_->post([this, id, refs = std::move(refs)]() mutable {
      // While nobody has said how large a row is, one batch at a time may start.
      uint64_t bytes = options_.units ? unit_estimate_
                       : layout_      ? layout_->slot_bytes(refs.size())
                                      : options_.window_bytes;
      BatchId batch = assigner_.push(static_cast<uint32_t>(refs.size()), bytes);
      open_[batch] = {id, std::move(refs), {}, 0, {}};
      step();
    });
    return ok();
  });
}

std::variant<Batch, NextError> ClientCore::next(int64_t deadline_ns) {
  auto deadline = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline_ns));
  auto can_say = [](const Shared& shared) {
    return shared.closed || shared.next_out == shared.next_push || shared.over ||
           (!shared.ready.empty() && shared.ready.begin()->first == shared.next_out);
  };
  shared_.with([&](Shared& shared) {
    if (!can_say(shared) && shared.next_out != shared.cold) shared.waiting_since_ns = monotonic_ns();
  });
  return shared_.wait_until(deadline, can_say, [&](Shared& shared, bool) -> std::variant<Batch, NextError> {
    if (shared.waiting_since_ns != 0)
      shared.wait_ns += monotonic_ns() - std::exchange(shared.waiting_since_ns, 0);
    if (shared.closed) return NextError{fault_of({Code::kCancelled, "the loader is closed", {}}), true};
    if (!shared.ready.empty() && shared.ready.begin()->first == shared.next_out) {
      Ready ready = std::move(shared.ready.begin()->second);
      shared.ready.erase(shared.ready.begin());
      BatchId batch = shared.next_out++;
      if (auto* got = std::get_if<Batch>(&ready.outcome)) {
        shared.digest += ready.term;
        ++shared.stats.batches;
        if (shared.first_out_ns == 0) shared.first_out_ns = monotonic_ns();
        shared.stats.samples += got->rows;
        bool after = !shared.last_position || ready.first_position > *shared.last_position;
        shared.stats.in_order = shared.stats.in_order && after && ready.ascending;
        shared.last_position = ready.last_position;
        pool_->hand_over(*got->slot);
      }
      loop_->post([this, batch] {
        assigner_.delivered(batch);
        open_.erase(batch);
        step();
      });
      return std::move(ready.outcome);
    }
    if (shared.over) return *shared.over;
    if (shared.next_out == shared.next_push)
      return NextError{fault_of({Code::kCancelled, "no batch has been asked for", {}}), false};
    return NextError{fault_of({Code::kDeadline, "the batch is not there yet", {}}), false};
  });
}

ClientStats ClientCore::stats() {
  // Figures of the thread come through it, so that they are of this moment; not when it has ended.
  auto fresh = std::make_shared<Guarded<bool>>(false);
  bool asked = shared_.with([&](Shared& shared) {
    if (shared.closed) return false;
    loop_->post([this, fresh] {
      publish_stats();
      fresh->notify([](bool& done) { done = true; });
    });
    return true;
  });
  if (asked)
    fresh->wait_until(
        std::chrono::steady_clock::now() + std::chrono::seconds(1), [](bool done) { return done; },
        [](bool&, bool) {});
  return shared_.with([](Shared& shared) {
    ClientStats stats = shared.stats;
    stats.ready = shared.ready.size();
    stats.pushed = shared.next_push - shared.next_out;
    stats.digest = shared.digest.hex();
    const int64_t now = monotonic_ns();
    stats.wait_ns = shared.waited_ns(now);
    if (shared.first_out_ns != 0) stats.since_first_ns = now - shared.first_out_ns;
    return stats;
  });
}

void ClientCore::hurry(int64_t limit_ns) {
  shared_.with([&](Shared& shared) {
    if (shared.closed) return;
    loop_->post([this, limit_ns] {
      assigner_.hurry(limit_ns);
      hurry_distant(limit_ns);
      step();
    });
  });
}

// Of children the assigner knows when they miss their deadline; of a distant worker's only that worker does.
void ClientCore::hurry_distant(int64_t limit_ns) {
  if (!options_.units || open_.empty()) return;
  for (auto& [id, endpoint] : endpoints_)
    if (auto* worker = std::get_if<DistantWorker*>(&endpoint.who))
      for (auto& [request, range] : endpoint.asked)
        if (range.batch == open_.begin()->first) (*worker)->hurry(request, limit_ns);
}

void ClientCore::publish_stats() {
  ClientStats stats;
  stats.corrupt = corrupt_;
  stats.disagreed = disagreed_;
  stats.counts = assigner_.counts();
  stats.row_counts = row_counts_;
  stats.errors = errors_;
  stats.errors["skipped"] = row_counts_.skipped;
  stats.errors["substituted"] = row_counts_.substituted;
  stats.errors["damaged"] = corrupt_;
  stats.errors["disagreed"] = disagreed_;
  stats.errors["lost"] = stats.counts.lost;
  stats.errors["timeout"] += stats.counts.expelled;
  std::erase_if(stats.errors, [](const auto& entry) { return entry.second == 0; });
  stats.starved_ns = starved_.total_ns(monotonic_ns());
  stats.thread_cpu_ns = thread_cpu_ns();
  stats.slot_bytes = pool_->bytes_held() + scratch_->bytes_held();
  stats.problem = problem_;
  stats.sizing = sizing_;
  auto add = [&](std::string name, EndpointId id, bool coming) {
    EndpointStats one{std::move(name)};
    one.coming = id == 0 && coming;
    if (auto view = assigner_.endpoint(id)) {
      one.ready = true;
      one.rows_per_s = view->rows_per_s;
      one.outstanding_rows = view->outstanding_rows;
      one.rows = view->answered_rows;
    }
    stats.endpoints.push_back(std::move(one));
  };
  for (auto& [address, worker] : workers_) {
    stats.bytes_received += worker->received_bytes();
    add(address, worker->endpoint, worker->may_come());
  }
  for (Kid& kid : kids_) {
    stats.children_cpu_ns += kid.cpu_ns + (kid.link ? kid.link->cpu_ns() : 0);
    if (kid.link) add("child " + std::to_string(kid.link->pid()), kid.endpoint, true);
    if (!kid.times.empty()) stats.children_times.push_back(kid.times);
  }
  stats.spare.state = "off";
  if (spare_) stats.spare = spare_->stats();
  stats.spare.samples = stats.counts.spare_rows;
  stats.children_cpu_ns += stats.spare.cpu_ns;
  stats.children_times.insert(stats.children_times.end(), ended_times_.begin(), ended_times_.end());
  shared_.with([&](Shared& shared) {
    stats.batches = shared.stats.batches;
    stats.samples = shared.stats.samples;
    stats.in_order = shared.stats.in_order;
    shared.stats = std::move(stats);
  });
}

// ---- deciding and asking

void ClientCore::step() {
  if (over_) return;
  int64_t now = monotonic_ns();
  Decisions decisions = assigner_.decide(now);
  if (!decisions.give_up.empty())
    return fail_stream(
        fault_of(unavailable(decisions.give_up + (problem_.empty() ? "" : "; last: " + problem_) +
                             (denial_.empty() || denial_ == problem_ ? "" : "; " + denial_))));
  for (const Ask& one : decisions.ask) ask(one);
  for (const Ask& one : decisions.cancel) {
    auto found = endpoints_.find(one.endpoint);
    if (found == endpoints_.end()) continue;
    for (auto& [request, range] : found->second.asked) {
      if (range != one.range) continue;
      std::visit(
          [request = request](auto* who) {
            if constexpr (std::is_same_v<decltype(who), DistantWorker*>)
              who->cancel(request);
            else
              who->link->cancel(request);
          },
          found->second.who);
    }
  }
  for (EndpointId id : decisions.expel) {
    auto found = endpoints_.find(id);
    if (found == endpoints_.end()) continue;
    Kid& kid = *std::get<Kid*>(found->second.who);
    kid.link->kill();  // and reaped, before anything of it is granted again
    kid_died(kid, "has been at a batch for too long and was killed");
    if (over_) return;
  }
  if (auto gone = pool_->take_gone(); !gone.empty()) {
    for (Kid& kid : kids_)
      if (kid.link) kid.link->drop_slots(gone);
  }
  if (auto gone = scratch_->take_gone(); spare_ && !gone.empty()) spare_->drop_slots(gone);
  if (wake_) loop_->cancel(*wake_);
  wake_.reset();
  if (auto at = assigner_.wake_at(now)) wake_ = loop_->at(*at, [this] { wake_.reset(), step(); });
}

std::vector<Ref> ClientCore::refs_of(RangeId range) const {
  const std::vector<Ref>& all = open_.at(range.batch).refs;
  auto first = all.begin() + range.first;
  return {first, first + assigner_.rows_of(range)};
}

void ClientCore::ask(const Ask& one) {
  Endpoint& endpoint = endpoints_.at(one.endpoint);
  uint32_t request = endpoint.next_request++;
  if (auto* kid = std::get_if<Kid*>(&endpoint.who); kid && endpoint.asked.empty()) goes_on(**kid);
  endpoint.asked[request] = one.range;
  Open& batch = open_.at(one.range.batch);
  if (!options_.units && !batch.slot) {
    auto slot = pool_->take(layout_->slot_bytes(batch.refs.size()));
    if (!slot.ok()) return fail_stream(fault_of(slot.error()));
    batch.slot = std::move(slot).value();
    batch.hashes.resize(batch.refs.size() * layout_->leaves.size());
  }
  std::vector<Ref> refs = refs_of(one.range);
  if (auto* worker = std::get_if<DistantWorker*>(&endpoint.who)) {
    (*worker)->ask(request, one.range.batch, refs, options_.units);
    return;
  }
  if (auto* spare = std::get_if<SpareWorkers::Kid*>(&endpoint.who)) {
    // Not now: other questions for it may be in hand.
    if (auto asked = ask_spare(**spare, request, one.range, refs); !asked.ok())
      loop_->post([this, why = asked.error().message] { spare_->give_up(why); });
    return;
  }
  ChildLink& link = *std::get<Kid*>(endpoint.who)->link;
  Status asked = options_.units
                     ? link.ask_unit(request, one.range.batch, refs, unit_estimate_)
                     : link.ask_rows(request, one.range.batch, refs, batch.slot, one.range.first,
                                     static_cast<uint32_t>(batch.refs.size()), layout_->leaves.size());
  if (!asked.ok()) fail_stream(fault_of(asked.error()));
}

void ClientCore::tick() {
  int64_t now = monotonic_ns();
  bool coming = false;
  if (!over_) start_rested_kids(now);
  for (Kid& kid : kids_) coming |= kid.endpoint == 0 && (kid.link || kid.again_ns != 0);
  for (auto& [address, worker] : workers_) coming |= worker->endpoint == 0 && worker->may_come();
  if (coming && assigner_.endpoints() == 0) assigner_.someone_is_coming(now);
  tell_of_late_kids(now);
  tell_dispatcher(now);
  if (spare_ && !over_) {
    const int64_t waited_ns = shared_.with([&](Shared& shared) { return shared.waited_ns(now); });
    spare_->tick(waited_ns, assigner_.endpoints() > 0, now);
  }
  step();
  if (!over_) loop_->at(now + kTickNs, [this] { tick(); });
}

void ClientCore::tell_dispatcher(int64_t now) {
  if (!subscription_) return;
  Sizing::Consumer use;
  bool begun = shared_.with([&](Shared& shared) {
    use = {shared.stats.samples, static_cast<double>(shared.waited_ns(now)) * 1e-9,
           static_cast<double>(now - shared.first_out_ns) * 1e-9, assigner_.counts().spare_rows};
    return shared.first_out_ns != 0;
  });
  if (begun) subscription_->tell(to_json(use).dump());
}

// ---- answers

EndpointId ClientCore::join(Who who, bool in_place, uint32_t parallel) {
  EndpointId id = next_endpoint_++;
  endpoints_[id].who = who;
  assigner_.joined(id, in_place, parallel, monotonic_ns());
  return id;
}

Status ClientCore::take_layout(const Json& reply) {
  if (options_.units) return ok();
  STOKER_ASSIGN(Layout theirs, Layout::from_json(reply));
  if (!layout_) {
    layout_ = theirs;
    // What was pushed before anybody said how large a row is.
    for (auto& [id, batch] : open_) assigner_.set_bytes(id, layout_->slot_bytes(batch.refs.size()));
  }
  if (!(theirs == *layout_))
    return invalid("a worker makes rows of another layout than the plan's: " + reply.dump());
  return ok();
}

std::optional<RangeId> ClientCore::take_asked(EndpointId id, uint32_t request) {
  auto endpoint = endpoints_.find(id);
  if (endpoint == endpoints_.end()) return {};
  auto found = endpoint->second.asked.find(request);
  if (found == endpoint->second.asked.end()) return {};
  RangeId range = found->second;
  endpoint->second.asked.erase(found);
  return range;
}

void ClientCore::unit_size_known(BatchId id, uint64_t bytes) {
  if (bytes > unit_estimate_) {
    unit_estimate_ = bytes;
    for (auto& [other, batch] : open_)
      if (!batch.slot) assigner_.set_bytes(other, bytes);
  }
  assigner_.set_bytes(id, bytes);
}

bool ClientCore::same_as_before(RangeId range, const std::vector<uint64_t>& table) {
  auto found = compare_.find(range);
  bool same = found == compare_.end() || found->second == table;
  if (!assigner_.in_flight(range)) compare_.erase(range);
  if (same) return true;
  ++disagreed_;
  std::string where = "batch " + std::to_string(range.batch) + ", rows from " + std::to_string(range.first);
  if (options_.units) {
    log_line(LogLevel::kWarn, "feed",
             "two workers made different samples for " + where +
                 ": the dataset's code depends on more than the position and its seeds; the first answer was "
                 "used");
    return true;
  }
  fail_stream(fault_of(
      {Code::kData,
       "two workers made different samples for " + where + ": one of the machines computes or stores wrongly",
       {}}));
  return false;
}

void ClientCore::rows_counted(RangeId range, const std::vector<uint64_t>& table) {
  if (assigner_.in_flight(range)) compare_[range] = table;
  auto found = open_.find(range.batch);
  if (found == open_.end()) return;
  Open& batch = found->second;
  if (options_.units) {
    batch.hashes = table;
  } else {
    std::copy(table.begin(), table.end(),
              batch.hashes.begin() + static_cast<ptrdiff_t>(range.first * layout_->leaves.size()));
  }
  if (assigner_.done(range.batch)) finish(range.batch);
}

void ClientCore::finish(BatchId id) {
  Open& open = open_.at(id);
  Ready ready;
  Batch batch;
  batch.id = open.id;
  batch.rows = open.refs.size();
  batch.slot = open.slot;
  batch.unit_bytes = open.unit_bytes;
  if (options_.units) {
    ready.term = unit_term(open.refs, options_.plan_hash, open.hashes[0]);
  } else {
    size_t leaves = layout_->leaves.size();
    for (size_t row = 0; row < open.refs.size(); ++row)
      ready.term +=
          row_term(open.refs[row], options_.plan_hash, row_hash(&open.hashes[row * leaves], leaves));
    batch.layout = *layout_;
    batch.leaf_offsets = layout_->leaf_offsets(batch.rows);
  }
  ready.first_position = open.refs.front().position;
  ready.last_position = open.refs.back().position;
  for (size_t row = 1; row < open.refs.size(); ++row)
    ready.ascending &= open.refs[row].position > open.refs[row - 1].position;
  batch.refs = open.refs;
  ready.outcome = std::move(batch);
  open.slot.reset();
  shared_.notify([&](Shared& shared) {
    if (id >= shared.next_out) shared.ready.emplace(id, std::move(ready));
  });
}

void ClientCore::tell_samples(Fault& fault, RangeId range) const {
  const auto refs = refs_of(range);
  fault.position = refs.front().position, fault.item = refs.front().item;
  fault.json.set("position_count", static_cast<int64_t>(refs.size()));
}

void ClientCore::fail_batch(BatchId id, Fault fault) {
  Ready ready;
  ready.outcome = NextError{std::move(fault), false};
  shared_.notify([&](Shared& shared) {
    if (id >= shared.next_out) shared.ready.emplace(id, std::move(ready));
  });
}

void ClientCore::fail_stream(Fault fault) {
  if (std::exchange(over_, true)) return;
  shared_.notify([&](Shared& shared) { shared.over = NextError{std::move(fault), true}; });
}

void ClientCore::range_failed(EndpointId id, uint32_t request, const Fault& fault) {
  auto range = take_asked(id, request);
  if (!range) return;
  ++errors_[error_kind(fault)];
  auto failure = assigner_.failed(*range, id, fault.retry, monotonic_ns());
  if (!assigner_.in_flight(*range)) compare_.erase(*range);
  if (failure == Assigner::Failure::kFinal) fail_batch(range->batch, fault);
}

void ClientCore::range_cancelled(EndpointId id, uint32_t request) {
  auto range = take_asked(id, request);
  if (!range) return;
  assigner_.cancelled(*range, id, monotonic_ns());
  if (!assigner_.in_flight(*range)) compare_.erase(*range);
}

void ClientCore::endpoint_gone(EndpointId id, const std::string& why) {
  auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return;
  std::erase_if(receiving_, [&](const auto& entry) { return entry.second == id; });
  endpoints_.erase(found);
  for (RangeId range : assigner_.lost(id, monotonic_ns())) {
    Fault fault = fault_of(
        unavailable("samples were given to several workers and each of them was lost; the last: " + why));
    if (open_.contains(range.batch)) tell_samples(fault, range);
    fail_batch(range.batch, std::move(fault));
  }
  std::erase_if(compare_, [&](const auto& entry) { return !assigner_.in_flight(entry.first); });
}

}  // namespace stoker::feed
