// SPDX-License-Identifier: Apache-2.0
#include "feed/sizing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace stoker::feed {
namespace {
constexpr double kLeastOwnTime = 0.02;  // of a loop that does nothing but wait
constexpr double kSecondNs = 1e9;
constexpr double kMostCores = 4096, kMostSeconds = 1e9, kLeastCost_s = 1e-9;
constexpr uint64_t kMostSamples = uint64_t{1} << 53;
constexpr double kSmoothing = 0.3;  // of the CPU time per sample: large samples fall on one side of a report

std::string percent(double share) { return std::to_string(std::lround(share * 100)) + " %"; }

std::string rate_text(double per_s) {
  char text[32];
  std::snprintf(text, sizeof text, per_s < 10 ? "%.1f/s" : "%.0f/s", per_s);
  return text;
}

std::string workers_text(int count) { return std::to_string(count) + (count == 1 ? " worker" : " workers"); }
}  // namespace

void Sizing::told(const std::string& name, const Worker& figures, int64_t now) {
  const bool sane = figures.cores > 0 && figures.cores <= kMostCores && figures.cpu_s >= 0 &&
                    figures.cpu_s <= kMostSeconds && figures.samples <= kMostSamples;
  if (!sane) return;
  auto [at, is_new] = makers_.try_emplace(name);
  Maker& maker = at->second;
  if (is_new) {
    maker.since_ns = now;
    settle(now);
  }
  if (!maker.marks.empty() && figures.samples < maker.marks.back().told.samples) {  // it was started again
    maker.made = false;
    maker.since_ns = now;
    settle(now);
    maker.marks.clear();
  } else if (!maker.marks.empty() && figures.cpu_s < maker.marks.back().told.cpu_s) {
    maker.marks.clear();
  }
  // What was used before the first sample is imports and opening the plan.
  const bool first = !maker.made && figures.samples > 0;
  maker.made = maker.made || figures.samples > 0;
  maker.marks.push_back({now, figures});
  if (first) settle(now);
  const Mark& from = maker.marks.front();
  if (figures.samples > from.told.samples && figures.cpu_s > from.told.cpu_s) {
    const double cost_s =
        std::max(kLeastCost_s, (figures.cpu_s - from.told.cpu_s) /
                                   static_cast<double>(figures.samples - from.told.samples));
    maker.cost_s += (maker.cost_s > 0 ? kSmoothing : 1) * (cost_s - maker.cost_s);
  }
  if (is_new) {
    Group& group = groups_[figures.group];
    const auto there = std::count_if(makers_.begin(), makers_.end(), [&](const auto& entry) {
      return entry.second.marks.back().told.group == figures.group;
    });
    group.wanted = std::max(group.wanted, static_cast<int>(there));
  }
}

void Sizing::worker_gone(const std::string& name, int64_t now) {
  if (makers_.erase(name) > 0) settle(now);
}

void Sizing::told(ConsumerId id, const Consumer& figures, int64_t now) {
  const bool sane = figures.wait_s >= 0 && figures.wait_s <= kMostSeconds && figures.time_s >= 0 &&
                    figures.time_s <= kMostSeconds && figures.samples <= kMostSamples &&
                    figures.spare <= kMostSamples;
  if (!sane) return;
  auto [at, is_new] = takers_.try_emplace(id);
  const Consumer last = std::exchange(at->second.last, figures);
  if (is_new || figures.samples < last.samples || figures.time_s <= last.time_s) return;
  const double time_s = figures.time_s - last.time_s;
  const double wait_s = std::clamp(figures.wait_s - last.wait_s, 0.0, time_s);
  const uint64_t spare = figures.spare - std::min(last.spare, figures.spare);
  parts_.push_back({now, id, {figures.samples - last.samples, wait_s, time_s, spare}});
}

void Sizing::consumer_gone(ConsumerId id) { takers_.erase(id); }

// What was measured with other workers says nothing of these.
void Sizing::settle(int64_t now) {
  settled_ns_ = now;
  parts_.clear();
  for (auto& [name, maker] : makers_)
    if (!maker.marks.empty()) maker.marks.erase(maker.marks.begin(), std::prev(maker.marks.end()));
}

void Sizing::forget_old(int64_t now) {
  while (!parts_.empty() && parts_.front().at_ns < now - kWindowNs) parts_.pop_front();
  for (auto& [name, maker] : makers_)
    while (maker.marks.size() > 2 && maker.marks[1].at_ns < now - kWindowNs) maker.marks.pop_front();
}

bool Sizing::is_warming(int64_t now) const {
  return std::any_of(makers_.begin(), makers_.end(), [&](const auto& entry) {
    return !entry.second.made && now - entry.second.since_ns < kWarmNs;
  });
}

// Consumers that follow one another (a loader for training, one for validation) count for the share of the
// time in which they were there.
Sizing::Use Sizing::use(int64_t now) {
  if (parts_.empty()) return {now - settled_ns_ >= kWindowNs, 0, 0, 0};  // nobody takes anything
  std::map<ConsumerId, Consumer> sums;
  double spare = 0;
  double from_s = static_cast<double>(now) / kSecondNs;
  for (const Part& part : parts_) {
    Consumer& sum = sums[part.who];
    sum.samples += part.change.samples;
    sum.wait_s += part.change.wait_s;
    sum.time_s += part.change.time_s;
    spare += static_cast<double>(part.change.spare);
    from_s = std::min(from_s, static_cast<double>(part.at_ns) / kSecondNs - part.change.time_s);
  }
  const double span_s = static_cast<double>(parts_.back().at_ns) / kSecondNs - from_s;
  Use use;
  use.known = span_s * kSecondNs >= 0.8 * static_cast<double>(kLookNs);
  use.spare = spare / span_s;
  for (const auto& [who, sum] : sums) {
    auto taker = takers_.find(who);
    double rate =
        static_cast<double>(sum.samples) / std::max(sum.time_s - sum.wait_s, kLeastOwnTime * sum.time_s);
    // One that got nothing all the time says only that it waits.
    if (sum.samples == 0 && sum.wait_s > 0.5 * sum.time_s && taker != takers_.end())
      rate = taker->second.rate;
    else if (taker != takers_.end() && sum.samples > 0)
      taker->second.rate = rate;
    use.demand += rate * std::min(1.0, sum.time_s / span_s);
    use.stall = std::max(use.stall, sum.wait_s / std::max(sum.time_s, span_s / 2));
  }
  return use;
}

double Sizing::rate_of(const Maker& maker) const {
  double cost_s = maker.cost_s;
  if (cost_s <= 0) {  // a new one: as the others
    int known = 0;
    for (const auto& [name, other] : makers_)
      if (other.cost_s > 0) cost_s += other.cost_s, ++known;
    if (known == 0) return 0;
    cost_s /= known;
  }
  return maker.marks.back().told.cores / cost_s;
}

std::map<std::string, Sizing::Supply> Sizing::supplies() const {
  std::map<std::string, Supply> supplies;
  double all_per_s = 0;
  std::map<std::string, double> used_s, could_s;
  for (const auto& [name, maker] : makers_) {
    const Mark &from = maker.marks.front(), &to = maker.marks.back();
    Supply& supply = supplies[to.told.group];
    ++supply.workers;
    const double per_s = rate_of(maker);
    supply.per_s += per_s;
    all_per_s += per_s;
    used_s[to.told.group] += to.told.cpu_s - from.told.cpu_s;
    could_s[to.told.group] += static_cast<double>(to.at_ns - from.at_ns) / kSecondNs * to.told.cores;
  }
  for (auto& [name, supply] : supplies) {
    supply.all_per_s = all_per_s;
    supply.busy = could_s[name] > 0 ? used_s[name] / could_s[name] : 0;
  }
  return supplies;
}

bool Sizing::decide(int64_t now) {
  forget_old(now);
  if (now - settled_ns_ < kLookNs || is_warming(now)) return false;
  const Use used = use(now);
  if (!used.known) return false;
  bool changed = false;
  for (const auto& [name, supply] : supplies()) {
    if (supply.per_s <= 0) continue;  // nobody has made a sample yet
    Group& group = groups_[name];
    group.advice.group = name;
    changed |= decide(group, used, supply, now);
  }
  return changed;
}

bool Sizing::decide(Group& group, const Use& use, const Supply& supply, int64_t now) {
  const int before = group.wanted;
  const auto is_soon = [&] { return group.shrunk_ns != 0 && now - group.shrunk_ns < 2 * group.hold_ns; };
  if (group.shrunk_ns != 0 && !is_soon()) {  // it was right to shrink
    group.shrunk_ns = 0;
    group.hold_ns = std::max(group.hold_ns / 2, kHoldNs);
  }
  const double others = supply.all_per_s - supply.per_s, each = supply.per_s / supply.workers;
  auto enough = [&](double headroom) {
    const double workers = std::ceil((use.demand * (1 + headroom) - others - use.spare) / each - 1e-9);
    return static_cast<int>(std::clamp(workers, 1.0, 1e6));
  };
  const std::string takes =
      "it would take " + rate_text(use.demand) + ", " + workers_text(supply.workers) + " can make " +
      rate_text(supply.per_s) + (others > 0 ? " and other groups " + rate_text(others) : "") +
      (use.spare > 0 ? ", spare cores of the trainer made " + rate_text(use.spare) : "");
  const std::string waits = "the loop waits " + percent(use.stall) + " of the time: " + takes;
  std::string reason = waits;
  if (use.stall >= kStalled) {
    // A demand that is measured in the little time between two waits is not believed further than this.
    int target = std::min(enough(kHeadroom), kMostAtOnce * supply.workers);
    // Ranks that wait for one another seem to want less than they do; who has CPU time left is no remedy.
    if (supply.busy >= kBusy) target = std::max(target, supply.workers + 1);
    if (target <= supply.workers)
      reason = waits + ", and they use " + percent(supply.busy) +
               " of their cores: what binds is not their CPU time (link, storage, a slow sample)";
    group.fewer_since_ns = 0;
    if (target > group.wanted) {
      group.wanted = target;
      if (is_soon()) group.hold_ns = std::min(2 * group.hold_ns, kMostHoldNs);
      group.shrunk_ns = 0;  // growth in steps is one mistake
    }
  } else {
    const int target = use.stall < kCalm ? enough(kShrinkHeadroom) : group.wanted;
    if (target >= group.wanted) {
      group.fewer_since_ns = 0;
    } else if (group.fewer_since_ns == 0) {
      group.fewer_since_ns = now;
      group.most_fewer = target;
    } else {
      group.most_fewer = std::max(group.most_fewer, target);
      if (now - group.fewer_since_ns >= group.hold_ns) {
        group.wanted = group.most_fewer;
        group.fewer_since_ns = 0;
        group.shrunk_ns = now;
      }
    }
    reason = use.demand > 0 ? "the loop does not wait: " + takes : "nobody takes samples";
    if (use.stall >= kCalm) reason = waits;
  }
  group.advice = {group.advice.group, supply.workers, group.wanted, use.demand,
                  supply.all_per_s,   use.stall,      use.spare,    std::move(reason)};
  return group.wanted != before;
}

std::vector<Sizing::Advice> Sizing::advice() const {
  std::vector<Advice> out;
  for (const auto& [name, group] : groups_)
    if (group.advice.wanted > 0) out.push_back(group.advice);
  return out;
}

}  // namespace stoker::feed
