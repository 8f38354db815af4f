// SPDX-License-Identifier: Apache-2.0
// The worker's way from a request for rows to their bytes on the wire.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "feed/worker_core.h"

namespace stoker::feed {
namespace {
constexpr uint64_t kAheadEnough = 1 << 20;
constexpr int64_t kTellTimesNs = 5'000'000;  // what is not told when a loader ends is not counted
constexpr int64_t kRestSliceNs = 10'000'000, kMostRestNs = 500'000'000;
}  // namespace

Job::~Job() {
  if (!charged) return;
  *budget -= bytes;
  if (on_freed) on_freed();
}

Status Job::open_buffer(wire::SlotPool& pool) {
  Status status = ok();
  std::call_once(opened, [&] {
    if (slot || cancelled) return;
    auto taken = pool.take(bytes);
    if (!taken.ok()) return void(status = taken.error());
    buffer = std::move(taken).value();
    leaf_at = plan->layout.leaf_offsets(refs.size());
    base = buffer->bytes().data();
  });
  if (status.ok() && !base && !cancelled)
    return unavailable("no room for a batch");  // another thread says why
  return status;
}

bool WorkerCore::within_budget(const Job& job) const {
  // What a socket does not take yet only cools down: the look-ahead is in the client's memory.
  if (job.session->link().unsent() > kAheadEnough) return false;
  return used_bytes_.load() + job.bytes <= options_.budget_bytes || job.session->admitted == 0;
}

void WorkerCore::charge(Job& job, uint64_t bytes) {
  job.bytes = bytes;
  job.budget = &used_bytes_;
  used_bytes_ += bytes;
  job.on_freed = [this, plan = std::weak_ptr<OpenPlan>(job.plan)] {
    loop_->post([plan] {
      if (auto still = plan.lock(); still && still->pool) still->pool->fill();
    });
  };
  job.charged = true;
}

void WorkerCore::add_job(std::shared_ptr<Job> job) {
  job->arrival = arrivals_++;
  job->session->jobs[job->request] = job;
  if (job->unit) return job->plan->pool->add(job);
  job->bytes = job->slot ? 0 : job->plan->layout.slot_bytes(job->refs.size());
  waiting_.insert(std::move(job));
  admit();
}

// Each session may have one going whatever the others hold. Beyond one for each thread and one to go on with,
// a request would only make its rows sooner than the socket takes them.
bool WorkerCore::may_begin(const Job& job) const {
  if (!within_budget(job)) return false;
  if (job.slot || job.session->admitted == 0 || making_ < executor_->threads()) return true;
  return making_bytes_ + job.session->link().unsent() + job.bytes <= kAheadEnough;
}

void WorkerCore::admit() {
  // Set before looking: room that is made meanwhile, by another thread, must lead to another look.
  admission_blocked_ = !waiting_.empty();
  while (std::shared_ptr<Job> job = waiting_.take([&](const Job& one) { return may_begin(one); }))
    if (auto begun = begin(job); !begun.ok()) refuse(job, begun.error());
}

void WorkerCore::count_making(const Job& job, int change) {
  if (job.slot) return;
  making_ += change;
  making_bytes_ += static_cast<uint64_t>(change) * job.bytes;
}

Status WorkerCore::begin(const std::shared_ptr<Job>& job) {
  job->hashes.resize(job->refs.size() * job->plan->layout.leaves.size());
  job->admitted = true;
  job->budget = &used_bytes_;
  job->on_freed = [this] {
    if (admission_blocked_.exchange(false)) loop_->post([this] { admit(); });
  };
  used_bytes_ += job->bytes;
  job->charged = true;
  ++job->session->admitted;
  count_making(*job, 1);
  job->plan->producer->will_need(job->refs);
  auto rows = static_cast<uint32_t>(job->refs.size());
  job->rows_left = rows;
  // One thread makes, hashes and sends a request, so that its bytes stay in one core's cache, unless
  // threads idle.
  size_t others = waiting_.size() + executor_->queued();
  auto threads = static_cast<uint32_t>(executor_->threads());
  uint32_t step = others + 1 >= threads ? rows : std::max(1U, rows / threads);
  // A parent's requests have all begun, so their order is the threads'; others begin in the queue's order,
  // which the threads keep.
  uint64_t order = job->slot ? job->batch : begun_++;
  for (uint32_t first = 0; first < rows; first += step) {
    uint32_t last = std::min(rows, first + step);
    STOKER_TRY(executor_->submit(order, [this, job, first, last](pipeline::Scratch& scratch) {
      run_rows(job, first, last, scratch);
    }));
  }
  return ok();
}

// Rows that did get submitted find it cancelled, and answer nothing.
void WorkerCore::refuse(const std::shared_ptr<Job>& job, const Error& error) {
  job->cancelled = true;
  Fault fault;
  fault.error = error;
  fault.retry = true;
  count_error(fault);
  std::string text = fault_to_json(fault, address_);
  job->session->link().send(header_of(MessageType::kError, job->plan_number, job->request),
                            {text.begin(), text.end()});
  if (std::exchange(job->admitted, false)) {
    --job->session->admitted;
    count_making(*job, -1);
  }
  job->session->jobs.erase(job->request);
}

void WorkerCore::run_rows(const std::shared_ptr<Job>& job, uint32_t first, uint32_t last,
                          pipeline::Scratch& scratch) {
  const Layout& layout = job->plan->layout;
  size_t leaves = layout.leaves.size();
  std::vector<uint8_t*> at(leaves);
  uint64_t made_rows = 0;
  auto fail = [&](uint32_t row, const Error& error, bool retry) {
    job->fault.with([&](Fault& fault) {
      if (job->failed && fault.position <= job->refs[row].position) return;
      fault.error = error;
      fault.position = job->refs[row].position;
      fault.item = job->refs[row].item;
      fault.retry = retry;
    });
    job->failed = true;
  };
  int64_t begun = monotonic_ns();
  const pipeline::StageTimes& times = scratch.times;
  const RowCounts before{times.skipped, times.substituted, times.other_formats};
  if (auto opened = job->open_buffer(*buffers_); !opened.ok()) fail(first, opened.error(), true);
  for (uint32_t row = first; row < last && !job->cancelled && !job->failed; ++row) {
    for (size_t k = 0; k < leaves; ++k)
      at[k] = job->base + job->leaf_at[k] + row * layout.leaves[k].row_bytes;
    bool timed = scratch.times.times_next();
    const int64_t row_begun = pace_ < kFullPace ? thread_cpu_ns() : 0;
    if (auto made = job->plan->producer->produce(job->refs[row], at, scratch); !made.ok()) {
      fail(row, made.error(), made.error().code == Code::kUnavailable);  // could not be read here and now
      break;
    }
    // After the row, before its hash: memory is idle while we compute.
    if (row + 1 < last) job->plan->producer->comes_next(job->refs[row + 1]);
    int64_t made_at = timed ? thread_cpu_ns() : 0;
    for (size_t k = 0; k < leaves; ++k)
      job->hashes[row * leaves + k] = wire::block_hash({at[k], layout.leaves[k].row_bytes});
    if (timed) scratch.times.hash_ns += static_cast<uint64_t>(thread_cpu_ns() - made_at);
    ++made_rows;
    if (row_begun != 0) rest_after(*job, thread_cpu_ns() - row_begun);
  }
  job->counts.with([&](RowCounts& counts) {
    counts += {times.skipped - before.skipped, times.substituted - before.substituted,
               times.other_formats - before.other_formats};
  });
  samples_.fetch_add(made_rows, std::memory_order_relaxed);
  scratch.times.busy_ns += static_cast<uint64_t>(monotonic_ns() - begun);
  executor_->note_times(scratch);
  if (job->rows_left.fetch_sub(last - first) == last - first) finish_rows(job);
}

void WorkerCore::set_pace(uint64_t millionths) { pace_ = std::clamp(millionths, kLeastPace, kFullPace); }

// Short turns leave the trainer its part of each period of a CPU quota, which a low priority does not.
void WorkerCore::rest_after(const Job& job, int64_t busy_ns) const {
  const int64_t begun = monotonic_ns();
  while (!job.cancelled) {
    const auto pace = static_cast<double>(pace_.load()) / static_cast<double>(kFullPace);
    const auto rest_ns = static_cast<int64_t>(static_cast<double>(busy_ns) * (1 / pace - 1));
    const int64_t left_ns = std::min(rest_ns, kMostRestNs) - (monotonic_ns() - begun);
    if (left_ns <= 0) return;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(left_ns, kRestSliceNs)));
  }
}

// In the thread that made the last row, while its bytes are still in cache.
void WorkerCore::finish_rows(const std::shared_ptr<Job>& job) {
  auto link = job->session->shared_link();
  count_making(*job, -1);
  if (job->session->local())
    tell_times(*job->session, *job->plan->producer);  // before the answer it belongs to
  bool cancelled = job->cancelled;
  if (cancelled) {
    link->send(header_of(MessageType::kCancelled, job->plan_number, job->request));
  } else if (job->failed) {
    std::string text = job->fault.with([&](Fault& fault) {
      count_error(fault);
      return fault_to_json(fault, address_);
    });
    link->send(header_of(MessageType::kError, job->plan_number, job->request), {text.begin(), text.end()});
  } else {
    auto* raw = reinterpret_cast<const uint8_t*>(job->hashes.data());
    std::vector<uint8_t> table(raw, raw + job->hashes.size() * sizeof job->hashes[0]);
    wire::Header header =
        header_of(job->slot ? MessageType::kDone : MessageType::kRows, job->plan_number, job->request);
    header.d = static_cast<uint32_t>(job->refs.size());
    job->counts.with([&](RowCounts& counts) { put_row_counts(counts, header); });
    if (job->slot) {
      link->send(header, std::move(table));
    } else {
      std::vector<ByteView> blocks;
      const Layout& layout = job->plan->layout;
      for (size_t k = 0; k < layout.leaves.size(); ++k)
        blocks.push_back({job->base + job->leaf_at[k], job->refs.size() * layout.leaves[k].row_bytes});
      link->send(header, std::move(table), std::move(blocks), job);
    }
  }
  loop_->post([this, job] { job_answered(job); });
}

void WorkerCore::job_answered(const std::shared_ptr<Job>& job) {
  Session& session = *job->session;
  if (job->admitted) --session.admitted;
  // The number may belong to a newer request already: the client knows the answer before we do.
  if (auto found = session.jobs.find(job->request); found != session.jobs.end() && found->second == job)
    session.jobs.erase(found);
  if (!waiting_.empty()) admit();
}

void WorkerCore::tell_times(Session& session, const pipeline::Producer& producer) {
  int64_t now = monotonic_ns(), told = session.told_times_ns;
  if (now - told < kTellTimesNs || !session.told_times_ns.compare_exchange_strong(told, now)) return;
  Json times = to_json(executor_->times(), producer);
  times.set("cpu_s", static_cast<double>(cpu_ns()) * 1e-9);
  std::string text = times.dump();
  session.link().send(header_of(MessageType::kTimes), {text.begin(), text.end()});
}

void WorkerCore::cancel_job(const std::shared_ptr<Job>& job) {
  if (job->unit) return job->plan->pool->cancel(job);
  if (waiting_.erase(job)) {
    job->session->link().send(header_of(MessageType::kCancelled, job->plan_number, job->request));
    job->session->jobs.erase(job->request);
  } else {
    job->cancelled = true;  // the last of its rows answers
  }
}

}  // namespace stoker::feed
