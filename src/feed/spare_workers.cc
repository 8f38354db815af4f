// SPDX-License-Identifier: Apache-2.0
#include "feed/spare_workers.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "feed/client_core.h"

namespace stoker::feed {
namespace {
constexpr int kMostDeaths = 5;  // of one, in its life
constexpr int kMostFailures = 3;
constexpr int64_t kFirstPauseNs = 1'000'000'000;  // before it is started again, doubled with each death
constexpr int64_t kSilentNs =
    60'000'000'000;  // at full pace, with something to do: it hangs, or gets no core

const char* name_of(Slack::State state) {
  switch (state) {
    case Slack::State::kUnneeded:
      return "unneeded";
    case Slack::State::kTakesPart:
      return "part";
    case Slack::State::kTrainerShort:
      return "short";
    case Slack::State::kTrainerBusy:
      return "busy";
    case Slack::State::kPaused:
      break;
  }
  return "paused";
}
}  // namespace

SpareWorkers::SpareWorkers(ClientCore& core, wire::Loop& loop, std::shared_ptr<wire::SlotPool> pool,
                           SpareOptions options)
    : core_(core), loop_(loop), pool_(std::move(pool)), options_(std::move(options)), slack_(options_.cores) {
  kids_.resize(options_.commands.size());
  for (size_t i = 0; i < kids_.size(); ++i) kids_[i].command = options_.commands[i];
}

void SpareWorkers::tick(int64_t waited_ns, bool has_helpers, int64_t now) {
  if (ended_) return;
  const double share = options_.measured ? measure(waited_ns, now) : options_.cores;
  if (ended_) return;
  if (share > 0 && has_helpers) start_missing(now);
  for (Kid& kid : kids_) {
    if (!core_.is_asked(kid.endpoint)) kid.heard_ns = now;
    if (kid.link && now - kid.heard_ns > kSilentNs * static_cast<int64_t>(kFullPace / pace_))
      kill(kid, "has not answered for long and was killed");
    if (ended_) return;
  }
  if (share != share_) set_share(share);
}

// While the loop does not wait there is nothing to decide.
double SpareWorkers::measure(int64_t waited_ns, int64_t now) {
  if (std::exchange(last_waited_ns_, waited_ns) == waited_ns && share_ == 0) return 0;
  auto times = threads_.read();
  if (!times.ok()) {
    give_up(times.error().message);
    return 0;
  }
  return slack_.told({times->run_ns, times->delay_ns, waited_ns}, now);
}

void SpareWorkers::start_missing(int64_t now) {
  for (Kid& kid : kids_) {
    if (kid.link || now < kid.not_before_ns) continue;
    auto started = ChildLink::start(loop_, kid.command, core_.plan(), pool_, *this, core_.plan_ns());
    if (!started.ok()) return give_up(started.error().message);
    kid.link = std::move(started).value();
    kid.heard_ns = now;
  }
}

void SpareWorkers::set_share(double share) {
  const bool changes = (share > 0) != (share_ > 0);
  share_ = share;
  if (share > 0) tell_pace();
  if (changes) core_.let_spare(share > 0);
}

void SpareWorkers::tell_pace() {
  uint32_t threads = 0;
  for (const Kid& kid : kids_) threads += kid.endpoint != 0 ? kid.parallel : 0;
  if (threads == 0 || share_ <= 0) return;
  const double each = std::min(1.0, share_ / threads);
  pace_ = std::max(kLeastPace, static_cast<uint64_t>(each * static_cast<double>(kFullPace)));
  for (Kid& kid : kids_)
    if (kid.endpoint != 0) kid.link->pace(pace_);
}

void SpareWorkers::drop_slots(const std::vector<uint64_t>& gone) {
  for (Kid& kid : kids_)
    if (kid.link) kid.link->drop_slots(gone);
}

void SpareWorkers::kill(Kid& kid, const std::string& how) {
  kid.link->kill();
  down(kid, how);
}

// It is dead and reaped.
void SpareWorkers::down(Kid& kid, const std::string& how) {
  const std::string what = "spare worker process " + std::to_string(kid.link->pid()) + " " + how;
  const std::string lines = kid.link->last_lines();
  forget(kid, what);
  kid.not_before_ns = monotonic_ns() + (kFirstPauseNs << std::min(kid.deaths, kMostDeaths));
  if (++kid.deaths < kMostDeaths) return log_line(LogLevel::kWarn, "feed", what);
  give_up(what + ", the " + std::to_string(kid.deaths) + "th time" +
          (lines.empty() ? "" : "; its last lines:\n" + lines));
}

// Of one that is dead.
std::unique_ptr<ChildLink> SpareWorkers::take_link(Kid& kid) {
  kid.cpu_ns += kid.link->cpu_ns();
  kid.slots.clear();
  return std::move(kid.link);
}

void SpareWorkers::forget(Kid& kid, const std::string& why) {
  loop_.post([dead = std::shared_ptr<ChildLink>(take_link(kid))] {});  // we may be in a call from it
  core_.spare_gone(std::exchange(kid.endpoint, 0), why);
}

void SpareWorkers::give_up(const std::string& why) {
  if (std::exchange(ended_, true)) return;
  why_ended_ = why;
  log_line(LogLevel::kWarn, "feed", "spare cores of this machine take no part: " + why);
  for (Kid& kid : kids_) {
    if (!kid.link) continue;
    kid.link->kill();
    forget(kid, why);
  }
  share_ = 0;
}

void SpareWorkers::end() {
  ended_ = true;
  for (Kid& kid : kids_) {
    if (!kid.link) continue;
    kid.link->kill();
    take_link(kid);
    kid.endpoint = 0;
  }
}

SpareStats SpareWorkers::stats() const {
  SpareStats stats;
  stats.why = why_ended_;
  stats.state = !why_ended_.empty() ? "ended" : options_.measured ? name_of(slack_.state()) : "part";
  stats.cores = share_;
  for (const Kid& kid : kids_) stats.cpu_ns += kid.cpu_ns + (kid.link ? kid.link->cpu_ns() : 0);
  return stats;
}

// ---- what they say

SpareWorkers::Kid& SpareWorkers::kid_of(ChildLink& link) {
  auto found = std::find_if(kids_.begin(), kids_.end(), [&](Kid& kid) { return kid.link.get() == &link; });
  CHECK(found != kids_.end());
  found->heard_ns = monotonic_ns();
  return *found;
}

void SpareWorkers::on_child_ready(ChildLink& child, const Json& reply, uint32_t parallel) {
  Kid& kid = kid_of(child);
  kid.parallel = parallel;
  core_.spare_ready(kid, reply);
  tell_pace();
}

void SpareWorkers::on_child_refused(ChildLink&, const Fault& fault) {
  give_up("they cannot open the plan: " + fault.error.message);
}

void SpareWorkers::on_child_rows(ChildLink& child, uint32_t request, std::vector<uint64_t> hashes,
                                 const RowCounts& counts) {
  Kid& kid = kid_of(child);
  kid.failures = 0;
  auto slot = kid.slots.extract(request);
  if (!slot.empty()) core_.spare_rows(kid, request, *slot.mapped(), hashes, counts);
}

void SpareWorkers::on_child_unit(ChildLink& child, uint32_t request, wire::SlotRef slot, uint64_t bytes,
                                 uint64_t hash) {
  Kid& kid = kid_of(child);
  kid.failures = 0;
  core_.spare_unit(kid, request, std::move(slot), bytes, hash);
}

// Where the data cannot be read here, the feed workers make the sample, or say what is wrong with it.
void SpareWorkers::on_child_error(ChildLink& child, uint32_t request, const Fault& fault) {
  Kid& kid = kid_of(child);
  kid.slots.erase(request);
  core_.spare_failed(kid, request);
  if (++kid.failures >= kMostFailures) give_up("they cannot make samples: " + fault.error.message);
}

void SpareWorkers::on_child_cancelled(ChildLink& child, uint32_t request) {
  Kid& kid = kid_of(child);
  kid.slots.erase(request);
  core_.spare_cancelled(kid, request);
}

void SpareWorkers::on_child_gone(ChildLink& child, const std::string& how) { down(kid_of(child), how); }

}  // namespace stoker::feed
