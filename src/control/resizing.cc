// SPDX-License-Identifier: Apache-2.0
#include "control/resizing.h"

#include <algorithm>

namespace stoker::control {

namespace {

bool has_ended(const HostState& host) { return host.phase >= HostPhase::kEnded; }
bool may_go(const HostState& host) { return host.extra && !host.stop_sent && !has_ended(host); }

// One that could be drained.
struct Extra {
  const Holder* of;
  std::string group;
  Need need;
  bool goes = false;
};

}  // namespace

std::vector<Resized> next_resizes(const JobSpec& spec, const JobState& state, int64_t now_ms) {
  if (state.outcome || state.phase == JobPhase::kQueued) return {};
  std::vector<Resized> shrinking, growing;
  auto room = static_cast<int64_t>(kMostHostsOfAJob) - static_cast<int64_t>(state.hosts.size());
  for (const auto& [group_name, size] : state.sizes) {
    const std::string& name = group_name;  // clang 14 lets no lambda use a structured binding
    const JobGroup* group = spec.find_group(name);
    if (!group || size.asked.wanted == 0) continue;
    const int64_t there = state.instances(name);
    const int64_t extras = std::count_if(state.hosts.begin(), state.hosts.end(), [&](const HostState& host) {
      return host.group == name && may_go(host);
    });
    const int64_t target =
        std::max(std::clamp(size.asked.wanted, group->spec.count, group->spec.most), there - extras);
    if (target < there) shrinking.push_back({name, target, {}});
    if (target <= there || room <= 0 || size.failures >= kMostFailures || now_ms < size.again_ms) continue;
    growing.push_back({name, std::min(target, there + room), {}});
    room -= growing.back().to - there;
  }
  shrinking.insert(shrinking.end(), growing.begin(), growing.end());
  return shrinking;
}

std::optional<int64_t> next_try_ms(const JobState& state, int64_t now_ms) {
  std::optional<int64_t> first;
  if (state.outcome) return first;
  for (const auto& [name, size] : state.sizes)
    if (size.again_ms > now_ms && size.failures < kMostFailures)
      first = std::min(first.value_or(size.again_ms), size.again_ms);
  return first;
}

std::vector<Yield> make_room(const Waiting& front, const std::vector<Holder>& holders,
                             const Machine& machine) {
  std::vector<Waiting> stays;  // once all that is on its way back has come
  std::vector<Extra> extras;
  for (const Holder& holder : holders) {
    if (holder.state.outcome) continue;  // all of it comes back
    Need need = need_of(holder.spec, machine);
    stays.push_back({holder.name, need});
    for (const HostState& host : holder.state.hosts)
      if (may_go(host))
        extras.push_back(
            {&holder, host.group, need_of_one(holder.spec, *holder.spec.find_group(host.group))});
  }
  auto fits = [&] {
    std::vector<Waiting> held = stays;
    for (const Extra& extra : extras)
      if (!extra.goes) held.push_back({extra.of->name, extra.need});
    return how_many_fit(front.need, 1, held, machine) == 1;
  };
  for (auto extra = extras.rbegin(); extra != extras.rend() && !fits(); ++extra) extra->goes = true;
  if (!fits()) return {};
  // One that has too little of what is short, before a larger one was reached, need not go.
  for (auto extra = extras.rbegin(); extra != extras.rend(); ++extra)
    if (extra->goes && (extra->goes = false, !fits())) extra->goes = true;

  std::vector<Yield> yields;
  for (const Extra& extra : extras) {
    if (!extra.goes) continue;
    auto same = std::find_if(yields.begin(), yields.end(), [&](const Yield& one) {
      return one.job == extra.of->name && one.to.group == extra.group;
    });
    if (same == yields.end())
      same = yields.insert(same, {extra.of->name,
                                  {extra.group, extra.of->state.instances(extra.group),
                                   "job " + front.name + " is queued and needs what it has"}});
    --same->to.to;
  }
  return yields;
}

}  // namespace stoker::control
