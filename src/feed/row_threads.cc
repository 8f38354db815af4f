// SPDX-License-Identifier: Apache-2.0
#include "feed/row_threads.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace stoker::feed {

RowPlaces row_places(const pipeline::RowLayout& layout, uint64_t rows) {
  constexpr uint64_t kLine = 64;
  RowPlaces places;
  for (const pipeline::Leaf& leaf : layout.leaves) {
    places.leaf_offsets.push_back(places.bytes);
    places.bytes += (rows * leaf.row_bytes + kLine - 1) / kLine * kLine;
  }
  return places;
}

RowsMade make_rows(const pipeline::Producer& producer, std::span<const Ref> refs, uint8_t* base,
                   const RowPlaces& places, const Sha256Digest* plan, pipeline::Scratch& scratch,
                   const std::atomic<bool>* stop) {
  const std::vector<pipeline::Leaf>& leaves = producer.layout().leaves;
  std::vector<uint8_t*> rows(leaves.size());
  std::vector<uint64_t> hashes(leaves.size());
  for (size_t k = 0; k < leaves.size(); ++k) rows[k] = base + places.leaf_offsets[k];
  RowsMade made{ok(), 0, {}};
  for (size_t i = 0; i < refs.size(); ++i) {
    if (stop && stop->load(std::memory_order_relaxed))
      return {Error{Code::kCancelled, "the batch is not wanted any more", {}}, i, {}};
    bool timed = scratch.times.times_next();
    if (Status status = producer.produce(refs[i], rows, scratch); !status.ok())
      return {std::move(status), i, {}};
    // After the row, before its hash: memory is idle while we compute.
    if (i + 1 < refs.size()) producer.comes_next(refs[i + 1]);
    if (plan) {
      int64_t made_at = timed ? thread_cpu_ns() : 0;
      for (size_t k = 0; k < leaves.size(); ++k) hashes[k] = block_hash({rows[k], leaves[k].row_bytes});
      made.term += row_term(refs[i], *plan, row_hash(hashes.data(), hashes.size()));
      if (timed) scratch.times.hash_ns += static_cast<uint64_t>(thread_cpu_ns() - made_at);
    }
    for (size_t k = 0; k < leaves.size(); ++k) rows[k] += leaves[k].row_bytes;
  }
  return made;
}

pipeline::StageTimes without_clock(pipeline::StageTimes times, const pipeline::Producer& producer) {
  if (!producer.quick()) return times;
  static const int64_t clock_ns = [] {
    int64_t least = 1'000'000, at = thread_cpu_ns();
    for (int i = 0; i < 32; ++i) {
      int64_t next = thread_cpu_ns();
      least = std::min(least, next - at);
      at = next;
    }
    return least;
  }();
  uint64_t clocks = times.timed * static_cast<uint64_t>(clock_ns);  // one within each stage
  times.read_ns -= std::min(times.read_ns, clocks);
  times.hash_ns -= std::min(times.hash_ns, clocks);
  return times;
}

namespace {

struct Job {
  RowBatch batch;
  bool made = false;
  std::atomic<bool> dropped = false;
};

std::chrono::steady_clock::time_point time_of(int64_t monotonic_ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(monotonic_ns));
}

}  // namespace

struct RowThreads::State {
  State(const pipeline::Producer& made_by, Options chosen)
      : producer(made_by),
        options(chosen),
        pool(BlockPool::make(chosen.free_blocks, chosen.window_bytes + chosen.keep_bytes)) {}

  const pipeline::Producer& producer;
  const Options options;
  const std::shared_ptr<BlockPool> pool;
  std::vector<std::thread> threads;

  mutable std::mutex mutex;  // guards all below
  std::condition_variable work, made;
  std::deque<std::shared_ptr<Job>>
      jobs;            // shared: with the thread that makes it, which may outlast its place here
  uint64_t first = 0;  // number of the first of jobs
  size_t begun = 0;    // of jobs, from the front
  uint64_t begun_bytes = 0;
  size_t idle = 0;  // threads that wait
  bool waited_for = false, stopping = false;
  std::vector<pipeline::StageTimes> times;
  std::vector<int64_t> cpu_ns;
  Hash128 digest;

  // What is below `wanted`, for the caller to destroy outside the lock: its end may unmap memory.
  std::vector<std::shared_ptr<Job>> take_until(uint64_t wanted) {
    std::vector<std::shared_ptr<Job>> taken;
    for (; first < wanted && !jobs.empty() && jobs.front()->made; ++first) {
      taken.push_back(std::move(jobs.front()));
      jobs.pop_front();
      --begun;
      begun_bytes -= taken.back()->batch.places.bytes;
      if (taken.back()->batch.block) digest += taken.back()->batch.term;
    }
    return taken;
  }

  bool may_begin() const {
    if (begun >= jobs.size()) return false;
    return begun == 0 || begun_bytes + jobs[begun]->batch.places.bytes <= options.window_bytes;
  }

  void run(size_t number) {
    pipeline::Scratch scratch;
    if (producer.quick()) scratch.times.rarely_timed();
    std::unique_lock lock(mutex);
    bool tell = false;  // who waits for the batch made last
    while (!stopping) {
      std::shared_ptr<Job> job;
      if (may_begin()) {
        job = jobs[begun++];
        begun_bytes += job->batch.places.bytes;
      }
      if (job || tell) {
        lock.unlock();  // before telling: who wakes needs the lock
        if (std::exchange(tell, false)) made.notify_one();
        if (job) make(*job, scratch);
        int64_t used = thread_cpu_ns();
        lock.lock();
        times[number] = scratch.times;
        cpu_ns[number] = used;
        if (!job) continue;
        job->made = true;
        tell = waited_for && !jobs.empty() && jobs.front() == job;
      } else {
        ++idle;
        work.wait(lock, [&] { return stopping || may_begin(); });
        --idle;
      }
    }
  }

  void make(Job& job, pipeline::Scratch& scratch) {
    RowBatch& batch = job.batch;
    int64_t began = monotonic_ns();
    Fault fault;
    auto block = pool->take(batch.places.bytes);
    if (block) {
      RowsMade rows = make_rows(producer, batch.refs, (*block)->bytes().data(), batch.places, &options.plan,
                                scratch, &job.dropped);
      batch.term = rows.term;
      if (rows.status.ok()) {
        batch.block = std::move(block).value();
      } else {
        fault.error = std::move(rows.status).error();
        fault.position = batch.refs[rows.failed].position;
        fault.item = batch.refs[rows.failed].item;
      }
    } else {
      fault.error = block.error();
    }
    if (!batch.block) batch.fault = std::move(fault);
    scratch.times.busy_ns += static_cast<uint64_t>(monotonic_ns() - began);
  }

  Status start() {
    times.resize(static_cast<size_t>(options.threads));
    cpu_ns.resize(times.size());
    sigset_t all, before;  // signals are the main thread's business
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    Status status = ok();
    try {
      for (size_t i = 0; i < times.size(); ++i) {
        threads.emplace_back([this, i] { run(i); });
        pthread_setname_np(threads.back().native_handle(), "stoker-rows");
      }
    } catch (const std::system_error& failure) {  // the standard library's only way to say so
      status = unavailable(std::string("starting a thread that makes rows: ") + failure.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return status;
  }
};

RowThreads::RowThreads(const pipeline::Producer& producer, Options options)
    : state_(std::make_unique<State>(producer, options)) {
  CHECK(options.threads > 0);
}

RowThreads::~RowThreads() { stop(); }

Status RowThreads::push(uint64_t number, std::vector<Ref> refs, uint64_t wanted) {
  State& state = *state_;
  auto job = std::make_shared<Job>();
  job->batch.places = row_places(state.producer.layout(), refs.size());
  job->batch.refs = std::move(refs);
  std::vector<std::shared_ptr<Job>> taken;
  bool wake;
  {
    std::lock_guard lock(state.mutex);
    if (state.stopping) return Error{Code::kCancelled, "the threads that make rows have ended", {}};
    taken = state.take_until(wanted);
    if (number < state.first + state.jobs.size()) return ok();
    state.jobs.push_back(std::move(job));
    wake = state.idle > 0 && state.may_begin();
  }
  if (wake) state.work.notify_one();
  if (!state.threads.empty()) return ok();
  Status started = state.start();
  if (!started.ok()) stop();
  return started;
}

const RowBatch* RowThreads::front(int64_t deadline_monotonic_ns, uint64_t wanted) {
  State& state = *state_;
  std::vector<std::shared_ptr<Job>> taken;
  std::unique_lock lock(state.mutex);
  taken = state.take_until(wanted);
  if (state.idle > 0 && state.may_begin()) state.work.notify_one();  // seldom: push() has done it
  auto is_made = [&] { return !state.jobs.empty() && state.jobs.front()->made; };
  if (!is_made()) {
    if (deadline_monotonic_ns <= 0) return nullptr;
    state.waited_for = true;
    bool there = state.made.wait_until(lock, time_of(deadline_monotonic_ns), is_made);
    state.waited_for = false;
    if (!there) return nullptr;
  }
  return &state.jobs.front()->batch;
}

uint64_t RowThreads::drop(uint64_t wanted) {
  State& state = *state_;
  std::vector<std::shared_ptr<Job>> taken;
  std::deque<std::shared_ptr<Job>> dropped;
  std::lock_guard lock(state.mutex);
  taken = state.take_until(wanted);
  for (auto& job : state.jobs) job->dropped = true;
  dropped.swap(state.jobs);
  state.first += dropped.size();
  state.begun = 0;
  state.begun_bytes = 0;
  return state.first;
}

RowThreadFigures RowThreads::figures(uint64_t wanted) {
  State& state = *state_;
  std::vector<std::shared_ptr<Job>> taken;
  RowThreadFigures figures;
  std::lock_guard lock(state.mutex);
  taken = state.take_until(wanted);
  for (const pipeline::StageTimes& times : state.times) figures.times += times;
  for (int64_t cpu_ns : state.cpu_ns) figures.cpu_ns += cpu_ns;
  figures.block_bytes = state.pool->bytes_held();
  figures.digest = state.digest;
  return figures;
}

void RowThreads::stop() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    for (auto& job : state_->jobs) job->dropped = true;
  }
  state_->work.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

}  // namespace stoker::feed
