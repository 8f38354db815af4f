// SPDX-License-Identifier: Apache-2.0
#include "agent/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/full_disk.h"
#include "agent/ownership.h"
#include "base/clock.h"
#include "base/text.h"
#include "telemetry/cgroup_usage.h"

namespace stoker::agent {
namespace {

constexpr int64_t kSamplePeriod_ns = 500'000'000;
constexpr size_t kMostFailureText = 4096, kMostSizing = 65536;

UniqueFd start_timer() {
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec period{{0, kSamplePeriod_ns}, {0, kSamplePeriod_ns}};
  timerfd_settime(timer.get(), 0, &period, nullptr);
  return timer;
}

std::string gibibytes(int64_t bytes) { return formatted("%.1f GiB", static_cast<double>(bytes) / (1 << 30)); }

Status sample(Instance& instance) {
  STOKER_ASSIGN(auto usage, telemetry::read_usage(instance.cgroup->folders(),
                                                  static_cast<double>(system_clock().wall_ms()) * 1e-3));
  return instance.metrics->append(usage.to_json());
}

// Says what keeps the metrics from being written once, not at each sample.
class Sampler {
 public:
  explicit Sampler(Instance& instance) : instance_(instance) {}
  void sample() {
    const Status taken = agent::sample(instance_);
    std::string problem = taken.ok() ? "" : taken.error().message;
    if (!problem.empty() && problem != problem_) instance_.events.emit(Notice{"metrics: " + problem});
    problem_ = std::move(problem);
  }
  // The instance goes on without a process that was killed, as one whose data workers are replaced: only this
  // tells why it is slow.
  void look_for_kills() {
    if (told_kill_) return;
    auto kills = telemetry::read_oom_kills(instance_.cgroup->folders());
    if (!kills.ok() || *kills == 0) return;
    told_kill_ = true;
    const Assignment& a = instance_.assignment;
    instance_.events.emit(
        Notice{"out of memory (limit " + gibibytes(a.memory_bytes) +
               "): the kernel has killed a process of it; fewer workers or smaller batches "
               "need less, " +
               (a.is_served() ? "no spare workers (--env STOKER_SPARE_CORES=0) too, " : "") +
               "a larger instance type has more"});
  }

 private:
  Instance& instance_;
  std::string problem_;
  bool told_kill_ = false;
};

// At most so much of a plain file: the name is in the script's hands, so it may be a link, a pipe, huge, or
// no text at all.
std::string beginning_of(const Instance& instance, const std::string& name, size_t most) {
  const Assignment& a = instance.assignment;
  auto file = open_caller_file(a.job_dir + "/" + name, O_RDONLY | O_NONBLOCK, a.uid, a.gid);
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  std::string text(most, '\0');
  ssize_t count = read(file->get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

// What the dispatcher of this instance has written, where it is new.
void pass_sizing_on(Instance& instance) {
  const Assignment& a = instance.assignment;
  if (!a.feed.sized || !instance.runs_dispatcher()) return;
  const std::string text = beginning_of(instance, "telemetry/" + a.host + "/sizing.json", kMostSizing);
  for (WantedSize& news : instance.sizing.look(text, a, monotonic_ns()))
    instance.events.emit(std::move(news));
}

std::string failure_text(const Instance& instance) {
  const std::string text = beginning_of(instance, "output/" + instance.assignment.host + "/failure",
                                        kMostFailureText + 1);  // one more shows whether a character is cut
  return std::string(cut_text(shown_text(cut_text(text, kMostFailureText)), kMostFailureText));
}

Exited describe(const Instance& instance, WaitStatus status) {
  Exited exited;
  exited.code = status.code();
  exited.signal = status.exited() ? 0 : status.signal();
  auto oom_kills = telemetry::read_oom_kills(instance.cgroup->folders());
  exited.oom = exited.code != 0 && oom_kills.ok() && *oom_kills > 0;
  if (const std::string& problem = instance.sandbox->exec_problem(); !problem.empty())
    exited.reason = problem;
  else if (status.exited())
    exited.reason = "exit code " + std::to_string(exited.code);
  else if (const char* name = sigabbrev_np(exited.signal))
    exited.reason = std::string("killed by SIG") + name;
  else
    exited.reason = "killed by signal " + std::to_string(exited.signal);
  if (exited.oom)
    // Who ends by itself may have other reasons: what was killed may have been replaced long ago.
    exited.reason += (status.exited() ? ", after the kernel had killed a process of it: out of memory (limit "
                                      : ": out of memory (limit ") +
                     gibibytes(instance.assignment.memory_bytes) + ")";
  const Assignment& a = instance.assignment;
  if (exited.code != 0)
    if (const std::string disk = full_disk_of(instance.log_path(a.host), a.uid); !disk.empty())
      exited.reason += ": no space is left at " + disk + ", where its log is; make room there";
  exited.failure = failure_text(instance);
  return exited;
}

}  // namespace

decltype(AgentEvent::what) watch_instance(Instance& instance) {
  Sandbox& sandbox = *instance.sandbox;
  UniqueFd timer = start_timer();
  Sampler metrics(instance);
  metrics.sample();
  bool stopping = false, killed = false;
  int64_t deadline = 0;
  std::optional<WaitStatus> end;
  std::optional<Error> lost;
  while (!end && !lost && !killed) {
    pollfd fds[3] = {
        {sandbox.ready_fd(), POLLIN, 0}, {instance.stop.fd(), POLLIN, 0}, {timer.get(), POLLIN, 0}};
    int64_t left_ms = stopping ? std::max<int64_t>((deadline - monotonic_ns()) / 1'000'000, 0) : -1;
    poll(fds, 3, static_cast<int>(left_ms));
    if (fds[0].revents) {
      auto next = sandbox.next();
      if (next.ok())
        end = *next;
      else
        lost = std::move(next).error();
      for (auto& notice : sandbox.take_notices()) instance.events.emit(Notice{std::move(notice)});
      continue;
    }
    if (fds[1].revents) {
      eventfd_t count;
      eventfd_read(instance.stop.fd(), &count);
      deadline = monotonic_ns() + static_cast<int64_t>(instance.stop.get()->grace_s * 1e9);
      if (!stopping && !sandbox.signal_user(SIGTERM).ok()) deadline = 0;
      stopping = true;
    }
    if (fds[2].revents) {
      uint64_t ticks;
      if (read(timer.get(), &ticks, sizeof ticks) > 0) {
        metrics.sample();
        metrics.look_for_kills();
        pass_sizing_on(instance);
      }
    }
    killed = stopping && monotonic_ns() >= deadline;
  }
  sandbox.kill();
  metrics.sample();
  if (end && end->code() == 0) metrics.look_for_kills();  // any other end says so itself
  if (stopping) {
    int code = end ? end->code() : 128 + SIGKILL;
    return Stopped{code, end ? (end->exited() ? 0 : end->signal()) : SIGKILL, killed};
  }
  if (lost) return Failed{"run", lost->message};
  return describe(instance, *end);
}

}  // namespace stoker::agent
