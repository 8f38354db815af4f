// SPDX-License-Identifier: Apache-2.0
#include "feed/worker.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "feed/cores.h"
#include "feed/reports.h"
#include "feed/worker_core.h"
#include "pipeline/plan.h"

namespace stoker::feed {
namespace {
constexpr int64_t kTickNs = 500'000'000;
constexpr int64_t kDrainNs = 5'000'000'000;
constexpr int64_t kIdlePlanNs = 20'000'000'000;
constexpr size_t kMaxSessions = 1024;
constexpr size_t kMaxTasks = 1 << 20;

Result<std::unique_ptr<pipeline::Producer>> open_from_json(const std::string& json, ByteView attachment,
                                                           const pipeline::PictureCacheOptions& cache,
                                                           std::shared_ptr<const Pillow> pillow) {
  STOKER_ASSIGN(pipeline::Plan plan, pipeline::Plan::parse(json));
  return pipeline::open_native(plan, attachment, cache, std::move(pillow));
}

Layout layout_of(const pipeline::RowLayout& rows) {
  Layout layout;
  for (const pipeline::Leaf& leaf : rows.leaves)
    layout.leaves.push_back({leaf.name, pipeline::dtype_name(leaf.dtype), leaf.shape, leaf.row_bytes});
  return layout;
}

}  // namespace

Worker::Worker(std::unique_ptr<WorkerCore> core) : core_(std::move(core)) {}
Worker::~Worker() = default;
Result<std::unique_ptr<Worker>> Worker::open(WorkerOptions options) {
  if (options.child_fd < 0 && options.token.empty()) return invalid("a worker needs the job's token");
  for (const std::string& dispatcher : options.dispatchers) STOKER_TRY(wire::parse_address(dispatcher));
  if (!options.advertise.empty()) STOKER_TRY(wire::parse_address(options.advertise));
  if (!options.picture_cache.kind.empty()) STOKER_TRY(options.picture_cache.check());
  if (options.threads <= 0) options.threads = allowed_cores();
  auto core = std::make_unique<WorkerCore>(std::move(options));
  STOKER_TRY(core->open());
  return std::unique_ptr<Worker>(new Worker(std::move(core)));
}
std::string Worker::address() const { return core_->address(); }
void Worker::run() { core_->run(); }
void Worker::drain() { core_->drain(); }
void Worker::stop() { core_->stop(); }

// ---- life

WorkerCore::WorkerCore(WorkerOptions options)
    : options_(std::move(options)), buffers_(wire::SlotPool::make(false, options_.budget_bytes)) {
  cores_ = std::min(allowed_cpu(), static_cast<double>(options_.threads));
  if (!options_.python.empty())
    pillow_ = std::make_shared<Pillow>(options_.python, std::vector<std::string>());
  if (options_.open_native) return;
  options_.open_native = [cache = options_.picture_cache, pillow = pillow_](const std::string& json,
                                                                            ByteView attachment) {
    return open_from_json(json, attachment, cache, pillow);
  };
}

WorkerCore::~WorkerCore() {
  if (executor_) executor_->stop();
  for (auto& session : sessions_) session->link().close();
  if (loop_) {  // what executor threads have posted still names jobs
    loop_->stop();
    loop_->run();
  }
  (void)waiting_.take_all();
  for (auto& session : sessions_) session->jobs.clear();
  sessions_.clear();
  plans_.clear();
}

Status WorkerCore::open() {
  STOKER_ASSIGN(loop_, wire::Loop::make());
  executor_ = std::make_unique<pipeline::Executor>(options_.threads, kMaxTasks);
  STOKER_TRY(executor_->start());
  if (!options_.telemetry_folder.empty()) {
    std::string path = options_.telemetry_folder + "/feed-" + std::to_string(getpid()) + ".jsonl";
    STOKER_ASSIGN(telemetry_, open_file(path, O_WRONLY | O_CREAT | O_APPEND));
  }
  if (options_.child_fd >= 0) {
    UniqueFd socket(options_.child_fd);
    STOKER_TRY(wire::set_nonblocking(socket.get()));
    auto session = std::make_shared<Session>(*this, "", true);
    STOKER_TRY(session->start(*loop_, std::move(socket)));
    sessions_.insert(session);
  } else {
    STOKER_ASSIGN(wire::Address address, wire::parse_address(options_.listen));
    STOKER_ASSIGN(UniqueFd listener, wire::listen_tcp(address));
    STOKER_ASSIGN(wire::Address bound, wire::local_address(listener.get()));
    address_ = bound.text();
    acceptor_ = std::make_unique<wire::Acceptor>(*loop_, "feed-worker",
                                                 [this](UniqueFd socket) { accept(std::move(socket)); });
    STOKER_TRY(acceptor_->start(std::move(listener)));
    for (const std::string& dispatcher : options_.dispatchers)
      dispatchers_.push_back(
          std::make_unique<DispatcherLink>(*loop_, dispatcher, options_.token, [this] { report(); }));
    loop_->post([this] {
      for (auto& dispatcher : dispatchers_) dispatcher->start();
    });
  }
  loop_->post([this] { tick(); });
  return ok();
}

void WorkerCore::run() {
  loop_->run();
  write_telemetry();
}

void WorkerCore::accept(UniqueFd socket) {
  if (sessions_.size() >= kMaxSessions || draining_) return;
  auto session = std::make_shared<Session>(*this, options_.token, false);
  if (session->start(*loop_, std::move(socket)).ok()) sessions_.insert(session);
}

void WorkerCore::drain() {
  loop_->post([this] {
    if (std::exchange(draining_, true)) return;
    drain_until_ns_ = monotonic_ns() + kDrainNs;
    for (auto& dispatcher : dispatchers_) dispatcher->stop();
    acceptor_.reset();
    for (auto& session : sessions_)
      if (session->through() && !session->local())  // a parent sees that its child ends
        session->link().send(header_of(MessageType::kGoodbye));
    drain_soon();  // what was asked before the other side heard of it is on its way
  });
}

void WorkerCore::drain_step() {
  bool busy = false;
  for (auto& session : sessions_) busy |= !session->jobs.empty() || session->link().unsent() > 0;
  if (!busy || monotonic_ns() > drain_until_ns_) return loop_->stop();
  drain_soon();
}

void WorkerCore::drain_soon() {
  loop_->at(monotonic_ns() + 20'000'000, [this] { drain_step(); });
}

void WorkerCore::session_over(Session& session) {
  auto self = session.shared_from_this();
  auto jobs = std::exchange(session.jobs, {});
  for (auto& [request, job] : jobs) {
    job->cancelled = true;
    waiting_.erase(job);
    if (job->plan->pool) job->plan->pool->cancel(job);
  }
  session.plans.clear();
  sent_before_ += session.link().sent_bytes();
  if (session.local()) return loop_->stop();
  sessions_.erase(self);
}

// ---- plans

std::shared_ptr<OpenPlan> WorkerCore::open_plan(std::string json, std::vector<uint8_t> attachment) {
  std::string key = sha256_hex(as_bytes(json)) + xxh3_128(attachment).hex();
  auto [at, added] = plans_.try_emplace(key);
  if (!added) return at->second;
  auto plan = at->second = std::make_shared<OpenPlan>();
  plan->key = key;
  auto refuse = [&](Error error) {
    plan->refused = Fault{};
    plan->refused->error = std::move(error);
    plans_.erase(key);
    return plan;
  };
  auto parsed = Json::parse(json);
  if (!parsed.ok()) return refuse(std::move(parsed).error().during("reading the plan"));
  if ((*parsed)["kind"].as_string() == "python") {
    if (options_.python.empty())
      return refuse({Code::kUnsupported, "this worker runs no Python plans (start it with --python)", {}});
    let_idle_pools_go();
    plan->pool = std::make_unique<PythonPool>(*this, *plan, std::make_shared<SentPlan>(json, attachment));
    if (auto started = plan->pool->start(options_.threads, options_.python); !started.ok())
      return refuse(started.error());
    return plan;
  }
  // Listing a large folder takes seconds: not in the loop.
  auto kept = std::make_shared<std::vector<uint8_t>>(std::move(attachment));
  auto submitted = executor_->submit(0, [this, plan, json = std::move(json), kept](pipeline::Scratch&) {
    auto producer =
        std::make_shared<Result<std::unique_ptr<pipeline::Producer>>>(options_.open_native(json, *kept));
    loop_->post([this, plan, producer] {
      if (producer->ok()) {
        plan->producer = std::move(*producer).value();
        plan->layout = layout_of(plan->producer->layout());
        plan->ready = true;
      } else {
        plan->refused = Fault{};
        plan->refused->error = producer->error();
        plans_.erase(plan->key);
      }
      plan_decided(plan);
    });
  });
  if (!submitted.ok()) return refuse(submitted.error());
  return plan;
}

// A script that makes a loader each epoch would have us hold the processes of all the last ones, until memory
// ends. One that nobody uses stays: two loaders may take turns.
void WorkerCore::let_idle_pools_go() {
  auto idle = [](const auto& entry) { return entry.second->pool && entry.second.use_count() == 1; };
  const OpenPlan* last = nullptr;
  for (auto& entry : plans_)
    if (idle(entry) && entry.second->ready && (!last || entry.second->idle_since_ns > last->idle_since_ns))
      last = entry.second.get();
  std::erase_if(plans_, [&](const auto& entry) { return idle(entry) && entry.second.get() != last; });
}

void WorkerCore::plan_decided(const std::shared_ptr<OpenPlan>& plan) {
  for (auto& session : std::set(sessions_)) session->plan_decided(plan);
}

std::shared_ptr<OpenPlan> WorkerCore::plan_of(const std::string& key) const {
  auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second;
}

void WorkerCore::refuse_later(const std::string& key) {
  loop_->post([this, key] {
    auto plan = plan_of(key);
    if (!plan) return;
    plans_.erase(key);
    plan_decided(plan);
  });
}

// ---- figures

int64_t WorkerCore::cpu_ns() const {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  int64_t sum = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000'000LL +
                (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000LL;
  if (pillow_) sum += pillow_->cpu_ns();
  for (auto& [key, plan] : plans_)
    if (plan->pool) sum += plan->pool->cpu_ns();
  return sum;
}

void WorkerCore::tick() {
  int64_t now = monotonic_ns();
  for (auto& session : std::set(sessions_)) {
    if (session->through() || now - session->since_ns < kHandshakeNs) continue;
    session->link().close();
    session_over(*session);
  }
  // Plans outlive their last client a little: the next loader often has the same.
  std::erase_if(plans_, [&](const auto& entry) {
    OpenPlan& plan = *entry.second;
    if (entry.second.use_count() > 1 || !plan.ready) plan.idle_since_ns = now;
    if (plan.pool) plan.pool->kill_stuck(now);
    return now - plan.idle_since_ns > kIdlePlanNs;
  });
  for (auto& dispatcher : dispatchers_) dispatcher->tick(now);
  write_telemetry();
  report();
  loop_->at(now + kTickNs, [this] { tick(); });
}

void WorkerCore::count_error(const Fault& fault) {
  errors_.with([kind = error_kind(fault)](ErrorCounts& counts) { ++counts[kind]; });
}

void WorkerCore::count_hung() {
  errors_.with([](ErrorCounts& counts) { ++counts["timeout"]; });
}

ErrorCounts WorkerCore::errors() {
  ErrorCounts counts = errors_.with([](ErrorCounts& now) { return now; });
  const pipeline::StageTimes times = executor_->times();
  counts["skipped"] = times.skipped;
  counts["substituted"] = times.substituted;
  counts["refused_token"] = refused_tokens_;
  return counts;
}

void WorkerCore::write_telemetry() {
  if (!telemetry_) return;
  Json line;
  line.set("t", static_cast<double>(system_clock().wall_ms()) / 1e3).set("kind", "feed");
  line.set("samples", samples_.load()).set("cpu_s", static_cast<double>(cpu_ns()) / 1e9);
  uint64_t sent = sent_before_, unsent = 0, requests = 0, clients = 0;
  for (auto& session : sessions_) {
    sent += session->link().sent_bytes();
    unsent += session->link().unsent();
    requests += session->jobs.size();
    clients += session->through();
  }
  line.set("sent_bytes", sent).set("unsent_bytes", unsent).set("held_bytes", used_bytes_.load());
  line.set("requests", requests).set("clients", clients).set("errors", to_json(errors()));
  std::string text = line.dump() + "\n";
  if (auto written = write_all(telemetry_.get(), as_bytes(text)); !written.ok()) {
    log_line(LogLevel::kWarn, "feed-worker", "telemetry ends: " + written.error().message);
    telemetry_.reset();
  }
}

void WorkerCore::report() {
  size_t open = 0;
  for (auto& session : sessions_) open += session->jobs.size();
  const std::string& address = options_.advertise.empty() ? address_ : options_.advertise;
  const WorkerReport report{{address, options_.threads, static_cast<int64_t>(open)},
                            {options_.group, cores_, samples_.load(), static_cast<double>(cpu_ns()) / 1e9}};
  const std::string text = report.to_json().dump();
  for (auto& dispatcher : dispatchers_) dispatcher->send_about(text);
}

}  // namespace stoker::feed
