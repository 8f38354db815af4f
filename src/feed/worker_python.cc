// SPDX-License-Identifier: Apache-2.0
// A worker's Python children: units from idle ones, deaths.
#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "feed/worker_core.h"

namespace stoker::feed {
namespace {
constexpr int kMaxDeaths = 4;                 // of one child, without an answer between
constexpr int64_t kStuckNs = 30'000'000'000;  // with what nobody wants any more
constexpr int64_t kAsleepNs = 5'000'000'000;
constexpr int kMaxAttempts = 3;                // for one unit
constexpr int64_t kFirstPauseNs = 50'000'000;  // before a child is started again, doubled with each death
constexpr int kMostDoublings = 8;
}  // namespace

PythonPool::PythonPool(WorkerCore& core, OpenPlan& plan, std::shared_ptr<const SentPlan> sent_plan)
    : core_(core),
      plan_(plan),
      sent_plan_(std::move(sent_plan)),
      pool_(wire::SlotPool::make(true, core.options().budget_bytes)) {}

PythonPool::~PythonPool() {
  for (Kid& kid : kids_)
    if (kid.restart) core_.loop().cancel(*kid.restart);
}

Status PythonPool::start(Kid& kid) {
  STOKER_ASSIGN(kid.link, ChildLink::start(core_.loop(), kid.command, sent_plan_, pool_, *this));
  return ok();
}

Status PythonPool::start(int children, const std::vector<std::string>& python) {
  kids_.resize(static_cast<size_t>(children));
  for (int i = 0; i < children; ++i) {
    Kid& kid = kids_[static_cast<size_t>(i)];
    kid.command.argv = python;
    for (std::string part : {std::string("-m"), std::string("stoker.data.worker"), std::string("--worker"),
                             std::to_string(i), std::string("--workers"), std::to_string(children)})
      kid.command.argv.push_back(std::move(part));
    STOKER_TRY(start(kid));
  }
  return ok();
}

PythonPool::Kid& PythonPool::kid_of(ChildLink& link) {
  auto found = std::find_if(kids_.begin(), kids_.end(), [&](Kid& kid) { return kid.link.get() == &link; });
  CHECK(found != kids_.end());
  return *found;
}

int64_t PythonPool::cpu_ns() const {
  int64_t sum = 0;
  for (const Kid& kid : kids_) sum += kid.cpu_ns + (kid.link ? kid.link->cpu_ns() : 0);
  return sum;
}

void PythonPool::add(std::shared_ptr<Job> job) {
  job->bytes = estimate_;
  waiting_.insert(std::move(job));
  fill();
}

void PythonPool::fill() {
  if (auto gone = pool_->take_gone(); !gone.empty())
    for (Kid& kid : kids_)
      if (kid.link) kid.link->drop_slots(gone);
  for (Kid& kid : kids_) {
    if (waiting_.empty()) return;
    if (!kid.link || !kid.link->ready() || kid.job) continue;
    // A client that does not read holds its own units up, not others'.
    kid.job = waiting_.take(
        [&](const Job& job) { return core_.within_budget(job) || job.session->link().unsent() == 0; });
    if (!kid.job) return;
    kid.request = next_request_++;
    kid.begun_ns = monotonic_ns();
    kid.told_late = false;
    if (auto asked = kid.link->ask_unit(kid.request, kid.job->batch, kid.job->refs, estimate_); !asked.ok()) {
      log_line(LogLevel::kError, "feed-worker", asked.error().message);
      waiting_.insert(std::exchange(kid.job, nullptr));
      return;
    }
  }
}

std::shared_ptr<Job> PythonPool::take(Kid& kid, uint32_t request) {
  CHECK(kid.request == request && kid.job);
  return std::exchange(kid.job, nullptr);
}

void PythonPool::answered(const std::shared_ptr<Job>& job) {
  core_.job_answered(job);
  fill();
}

void PythonPool::cancel(const std::shared_ptr<Job>& job) {
  if (waiting_.erase(job)) {
    job->session->link().send(header_of(MessageType::kCancelled, job->plan_number, job->request));
    core_.job_answered(job);
    return;
  }
  job->cancelled = true;
  job->cancelled_ns = monotonic_ns();
  for (Kid& kid : kids_)
    if (kid.job == job) kid.link->cancel(kid.request);
}

void PythonPool::kill_stuck(int64_t now) {
  // Who was stopped itself finds answers in its sockets that came long ago.
  const bool slept = now - std::exchange(looked_ns_, now) > kAsleepNs;
  for (Kid& kid : kids_) {
    if (!kid.link || !kid.job) continue;
    if (slept) kid.begun_ns = now;
    if (!kid.job->cancelled)
      look_for_hung(kid, now);
    else if (now - kid.job->cancelled_ns >= kStuckNs)
      kill(kid, "was still at work 30 s after its batch had been cancelled, and was killed");
  }
}

void PythonPool::look_for_hung(Kid& kid, int64_t now) {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t took = now - kid.begun_ns;
  const int64_t patience = times_.patience_ns(kid.job->attempts, kid.job->hurried_ns);
  const std::string since = "has been at the batch of position " +
                            std::to_string(kid.job->refs.front().position) + " for " +
                            std::to_string(took / kSecond) + " s";
  if (took > patience) {
    core_.count_hung();
    kill(kid, since + " and was killed");
  } else if (AnswerTimes::is_late(took, patience) && !std::exchange(kid.told_late, true)) {
    log_line(LogLevel::kWarn, "feed-worker",
             "Python worker process " + std::to_string(kid.link->pid()) + " " + since + "; after " +
                 std::to_string(patience / kSecond) + " s it is replaced");
  }
}

void PythonPool::kill(Kid& kid, const std::string& why) {
  ChildLink& link = *kid.link;
  link.kill();
  on_child_gone(link, why);
}

void PythonPool::on_child_ready(ChildLink& child, const Json&, uint32_t) {
  (void)child;
  if (!std::exchange(plan_.ready, true))
    if (auto plan = core_.plan_of(plan_.key)) core_.plan_decided(plan);
  fill();
}

void PythonPool::on_child_refused(ChildLink&, const Fault& fault) {
  if (plan_.ready || plan_.refused) return;
  plan_.refused = fault;
  core_.refuse_later(plan_.key);
}

void PythonPool::on_child_rows(ChildLink&, uint32_t, std::vector<uint64_t>, const RowCounts&) {
  CHECK(false);
}

void PythonPool::on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                               uint64_t hash) {
  Kid& kid = kid_of(child);
  kid.deaths = 0;
  times_.note(monotonic_ns() - kid.begun_ns);
  auto job = take(kid, request);
  estimate_ = std::max(estimate_, bytes);
  core_.count_samples(job->refs.size());
  wire::Header header = header_of(MessageType::kUnit, job->plan_number, job->request);
  header.c = hash;
  core_.charge(*job, slot->bytes().size());
  struct Keep {
    wire::SlotRef slot;
    std::shared_ptr<Job> job;
  };
  ByteView view = slot->bytes().first(bytes);
  auto keep = std::make_shared<Keep>(Keep{std::move(slot), job});
  job->session->link().send(header, {}, {view}, keep);
  answered(job);
}

void PythonPool::on_child_error(ChildLink& child, uint32_t request, const Fault& fault) {
  Kid& kid = kid_of(child);
  kid.deaths = 0;
  auto job = take(kid, request);
  core_.count_error(fault);
  std::string text = fault_to_json(fault, core_.address());
  job->session->link().send(header_of(MessageType::kError, job->plan_number, job->request),
                            {text.begin(), text.end()});
  answered(job);
}

void PythonPool::on_child_cancelled(ChildLink& child, uint32_t request) {
  auto job = take(kid_of(child), request);
  job->session->link().send(header_of(MessageType::kCancelled, job->plan_number, job->request));
  answered(job);
}

void PythonPool::on_child_gone(ChildLink& child, const std::string& how) {
  Kid& kid = kid_of(child);
  std::string lines = child.last_lines();
  std::string what = "Python worker process " + std::to_string(child.pid()) + " " + how +
                     (lines.empty() ? "" : "; its last lines:\n" + lines);
  kid.cpu_ns += child.cpu_ns();
  auto job = std::exchange(kid.job, nullptr);
  core_.loop().post([dead = std::shared_ptr<ChildLink>(std::move(kid.link))] {});  // we are in its call
  if (plan_.refused) return;
  log_line(LogLevel::kWarn, "feed-worker", what);
  ++kid.deaths;
  if (job) {
    if (++job->attempts < kMaxAttempts && !job->cancelled) {
      waiting_.insert(job);
    } else {
      send_fault(*job, what + " while it made this batch, as did " + std::to_string(job->attempts - 1) +
                           " before it");
      core_.job_answered(job);
    }
  }
  if (!plan_.ready && (kid.deaths >= kMaxDeaths || child.too_slow_to_start())) {
    plan_.refused = Fault{};
    plan_.refused->error = unavailable(what);
    core_.refuse_later(plan_.key);
    return;
  }
  start_again(kid);
  fail_waiting_if_nobody_comes(what);
  fill();
}

// At once the first time; one that dies again and again is given longer and longer pauses.
void PythonPool::start_again(Kid& kid) {
  int64_t pause = kid.deaths < 2 ? 0 : kFirstPauseNs << std::min(kid.deaths - 2, kMostDoublings);
  kid.restart = core_.loop().at(monotonic_ns() + pause, [this, &kid] {
    kid.restart.reset();
    Status started = start(kid);
    if (started.ok()) return;
    log_line(LogLevel::kError, "feed-worker", started.error().message);
    ++kid.deaths;
    start_again(kid);
    fail_waiting_if_nobody_comes(started.error().message);
  });
}

// When each child has died several times without having made anything, what waits fails with the reason, and
// another worker may try. Later units wait for the next start.
void PythonPool::fail_waiting_if_nobody_comes(const std::string& what) {
  bool hopeless = std::all_of(kids_.begin(), kids_.end(), [](const Kid& kid) {
    return kid.deaths >= kMaxDeaths && !(kid.link && kid.link->ready());
  });
  if (!hopeless) return;
  for (const auto& job : waiting_.take_all()) {
    send_fault(*job, what);
    core_.job_answered(job);
  }
}

void PythonPool::send_fault(const Job& job, const std::string& what) {
  Fault fault;
  fault.error = unavailable(what);
  fault.position = job.refs.front().position;
  fault.item = job.refs.front().item;
  fault.retry = job.attempts == 0;  // it has not been tried here
  core_.count_error(fault);
  std::string text = fault_to_json(fault, core_.address());
  job.session->link().send(header_of(MessageType::kError, job.plan_number, job.request),
                           {text.begin(), text.end()});
}

}  // namespace stoker::feed
