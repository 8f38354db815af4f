// SPDX-License-Identifier: Apache-2.0
#include "control/advice.h"

#include <algorithm>

#include "base/text.h"

namespace stoker::control {
namespace {

// A helper group beyond this many machines is another conversation.
constexpr int kMostHelpers = 16;
// Waiting less than this share of the step, the trainer is as good as fed.
constexpr double kFed = 0.05;
// Using more than this share of its quota, an instance is short of CPU time.
constexpr double kShort = 0.95;
// A shorter window is of one line of telemetry: a script's imports are in all CPU time that it tells.
constexpr double kTwoLines_s = 1;
// Share of a trainer's cores that it and its spare workers may use together (feed/slack.h).
constexpr double kUsedWithSpare = 0.9;
// What handing over one batch costs, which the model leaves out, is below this. No step is predicted to be
// shorter: a trainer that does next to nothing would be promised hundreds of machines for it.
constexpr double kFinest_s = 0.001;
// CPU seconds a byte at either end of the wire, for jobs that have not measured it: as forecast.py has it.
constexpr double kSend_s = 0.25e-9, kReceive_s = 0.25e-9;

// The training group and the two sorts of CPU work of one step of all its instances.
struct Work {
  const GroupFigures* trainers = nullptr;
  double data_cpu_s = 0;
  double trainer_cpu_s = 0;
  double send_cpu_s = 0, receive_cpu_s = 0;  // on top of the two once helpers make the samples
  double blocked_s = 0;                      // the loop needs no CPU for so long
  double measured_own_s = 0;
  double least_own_s = 0;  // what is taken for the own step if it measures shorter
  // The trainer computes on the CPUs that make its samples, and there are too few: then its own step is
  // stretched by them, and only its CPU time says how long it would be. Otherwise what passes without waiting
  // is a floor (an accelerator at work, a sleep).
  bool stretched = false;
  double shared_cores =
      0;  // that trainers and their spare workers may use together; 0: spare ones are not counted on
  bool believable = true;  // the quota could have given the CPU time that was measured

  double cores() const { return trainers->cores * trainers->count; }
  double unrounded_own_s(double cores) const {
    const double computing_s = trainer_cpu_s / cores;
    // What passed without waiting is the most that it can be.
    return std::max(computing_s,
                    stretched ? std::min(blocked_s + computing_s, measured_own_s) : measured_own_s);
  }
  double own_s(double cores) const { return std::max(least_own_s, unrounded_own_s(cores)); }
  bool is_rounded_up() const { return unrounded_own_s(cores()) < least_own_s; }
  // The own step of a trainer that is fed: it takes in what helpers send.
  double fed_own_s() const { return std::max(own_s(cores()), (trainer_cpu_s + receive_cpu_s) / cores()); }
  double fed_s(double helper_cores) const {
    const double by_helpers_s = (data_cpu_s + send_cpu_s) / helper_cores;
    if (shared_cores <= 0) return by_helpers_s;
    const double all_cpu_s = data_cpu_s + send_cpu_s + trainer_cpu_s + receive_cpu_s;
    return std::min(by_helpers_s, all_cpu_s / (helper_cores + shared_cores));
  }
  double alone_s(double cores) const { return std::max(own_s(cores), (data_cpu_s + trainer_cpu_s) / cores); }
};

// Without what the loop may have waited for other threads of its process that computed: they share the cores
// with those who make samples.
double blocked_s_per_step(const JobFigures& job, double cores) {
  const auto steps = static_cast<double>(job.steps);
  const double others_cpu_s =
      std::max(0.0, job.trainer_cpu_s_per_step - (job.loop_cpu_s + job.client_cpu_s) / steps);
  return std::max(0.0, job.blocked_s / steps - others_cpu_s * std::max(1.0, (job.hands + 1) / cores));
}

// Refuses what measured too little to be told apart.
Result<Work> work_of(const JobFigures& job) {
  if (job.steps <= 0 || job.step_s() <= 0)
    return invalid(
        "job " + job.job +
        " has no measured steps yet: its script must use stoker.DataLoader and take at least two batches");
  Work work;
  for (const GroupFigures& group : job.groups)
    if (group.trains() && (!work.trainers || group.accelerators > work.trainers->accelerators))
      work.trainers = &group;
  if (!work.trainers || work.trainers->cores <= 0)
    return invalid("job " + job.job + " has no group that trains");
  const bool has_feed = std::any_of(job.groups.begin(), job.groups.end(),
                                    [](const GroupFigures& group) { return group.feeds_loaders(); });
  if (job.undisturbed_data_cpu_s_per_sample <= 0 && has_feed)
    return invalid(
        "job " + job.job + " was too short to be measured: its feed workers had told no CPU time " +
        formatted("when its %.0f steps were done after %.1f s; give it a run of some hundred steps and "
                  "at least %.0f s",
                  static_cast<double>(job.steps), job.window_s, kShortWindow_s));
  if (job.inline_data && !job.fed)
    return invalid("job " + job.job +
                   " made its samples on the training loop's own thread, so that no prediction can tell them "
                   "apart from training: use num_workers > 0");
  if (job.undisturbed_data_cpu_s_per_sample <= 0)
    return invalid("job " + job.job +
                   " measured no CPU time for making samples: use num_workers > 0, so that it is told apart "
                   "from training");
  work.data_cpu_s = job.undisturbed_data_cpu_s_per_sample * job.samples_per_step;
  work.trainer_cpu_s = std::max(0.0, job.undisturbed_trainer_cpu_s_per_step * work.trainers->count);
  if (!job.fed) {  // else both are in what was measured
    const double bytes = job.sample_bytes * job.samples_per_step;
    work.send_cpu_s = bytes * kSend_s;
    work.receive_cpu_s = bytes * kReceive_s;
  }
  work.measured_own_s = std::max(0.0, job.step_s() * (1 - job.wait_share()));
  work.blocked_s = blocked_s_per_step(job, work.trainers->cores);
  work.least_own_s = std::min(kFinest_s, job.step_s());
  work.believable = work.trainer_cpu_s <= kWorthwhile * work.cores() * job.step_s();
  if (!work.believable) {
    work.trainer_cpu_s = work.measured_own_s * work.cores();
    // Telemetry tells what an epoch's beginning takes too. Without spare workers, what the fed group used
    // while it stepped is all its trainer's, and no more than the quota gives.
    if (job.fed && job.spare_share == 0 && job.window_s >= kTwoLines_s)
      work.trainer_cpu_s =
          std::max(work.trainer_cpu_s, work.trainers->cpu_s / static_cast<double>(job.steps));
  }
  if (!job.fed || job.spare_share > 0) work.shared_cores = kUsedWithSpare * work.cores();
  const bool on_cpus = job.emulated_accelerators || work.trainers->accelerators == 0;
  work.stretched = on_cpus && !job.fed && work.trainers->cpu_s > kShort * work.cores() * job.window_s;
  return work;
}

FeedUse feed_use(const JobFigures& job, double cores_needed) {
  FeedUse out;
  for (const GroupFigures& group : job.groups) {
    if (!group.feeds_loaders()) continue;
    out.groups += (out.groups.empty() ? "" : " ") + group.name + "=" + formatted("%.3g", group.count) + "x" +
                  group.instance_type;
    out.vcpus += group.vcpus * group.count;
    out.vcpus_used += group.cpu_s / job.window_s / group.cores * group.vcpus;
    out.price_per_hour += group.price_per_hour * group.count;
  }
  if (job.price_per_hour() <= 0) out.price_per_hour = 0;
  out.vcpus_needed = cores_needed / job.cpu_scale;
  return out;
}

Candidate candidate(const JobFigures& job, Candidate::Kind kind, const std::string& type, int count,
                    double step_s, double price_per_hour, bool data_binds) {
  Candidate out{kind, type, count, step_s, price_per_hour};
  out.cost_per_100_steps = cost_per_100_steps(price_per_hour, step_s);
  out.speedup = job.step_s() / step_s;
  out.price_performance =
      price_performance(cost_per_100_steps(job.price_per_hour(), job.step_s()), out.cost_per_100_steps);
  out.binds = data_binds ? "data" : "trainer";
  return out;
}

bool is_sibling(const Offer& offer, const Offer& current) {
  return offer.family == current.family && offer.accelerators == current.accelerators &&
         offer.accelerators > 0 && offer.vcpus > current.vcpus && offer.price_per_hour > 0;
}

bool has_sibling(const std::vector<Offer>& offers, const Offer& current) {
  return std::any_of(offers.begin(), offers.end(),
                     [&](const Offer& offer) { return is_sibling(offer, current); });
}

void consider_siblings(const JobFigures& job, const Work& work, const std::vector<Offer>& offers,
                       const Offer& current, std::vector<Candidate>& out) {
  for (const Offer& offer : offers) {
    if (!is_sibling(offer, current)) continue;
    double cores = offer.vcpus * job.cpu_scale * work.trainers->count;
    double step_s = work.alone_s(cores);
    const int count = static_cast<int>(work.trainers->count);
    out.push_back(candidate(job, Candidate::Kind::kSibling, offer.type, count, step_s,
                            offer.price_per_hour * work.trainers->count, step_s > work.own_s(cores)));
  }
}

// Whether these are the helpers that the job had: what is predicted of them is no advice.
bool has_helpers(const JobFigures& job, const Offer& offer, int count) {
  const GroupFigures* only = nullptr;
  for (const GroupFigures& group : job.groups) {
    if (!group.feeds_loaders()) continue;
    if (only) return false;
    only = &group;
  }
  return only && only->instance_type == offer.type && only->count == count;
}

void consider_helpers(const JobFigures& job, const Work& work, const std::vector<Offer>& offers,
                      std::vector<Candidate>& out) {
  const double trainer_price = work.trainers->price_per_hour * work.trainers->count;
  // 0 for not known, if the trainers' is not.
  auto price = [&](const Offer& offer, int count) {
    return trainer_price > 0 ? trainer_price + offer.price_per_hour * count : 0;
  };
  const double own_s = work.fed_own_s();
  for (const Offer& offer : offers) {
    if (offer.accelerators > 0 || offer.price_per_hour <= 0) continue;
    for (int count = 1; count <= kMostHelpers; ++count) {
      double data_s = work.fed_s(offer.vcpus * job.cpu_scale * count);
      if (!has_helpers(job, offer, count))
        out.push_back(candidate(job, Candidate::Kind::kHelpers, offer.type, count, std::max(own_s, data_s),
                                price(offer, count), data_s > own_s));
      if (data_s <= own_s) break;  // one more would only cost more
    }
  }
}

Offer current_offer(const GroupFigures& trainers, const std::vector<Offer>& offers) {
  Offer current{trainers.instance_type, "", trainers.vcpus, trainers.accelerators, trainers.price_per_hour};
  for (const Offer& offer : offers)
    if (offer.type == current.type) current.family = offer.family;
  return current;
}

// Best price-performance first.
std::vector<Candidate> candidates(const JobFigures& job, const Work& work, const std::vector<Offer>& offers,
                                  const Offer& current, bool data_binds) {
  std::vector<Candidate> out;
  if (data_binds && !current.family.empty()) consider_siblings(job, work, offers, current, out);
  if (data_binds || job.fed) consider_helpers(job, work, offers, out);
  std::erase_if(out, [&](const Candidate& c) {
    if (data_binds) return c.speedup < kWorthwhile;
    return c.speedup < 1 / kWorthwhile || c.price_performance.value_or(-1) < kWorthwhile - 1;
  });
  // The fastest first where no price says more; fewer before more of the same.
  std::stable_sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    if (a.price_performance || b.price_performance) return a.price_performance > b.price_performance;
    return a.speedup > b.speedup;
  });
  return out;
}

std::string group_to_type(const Candidate& c, const JobFigures& job) {
  std::string name = "data";
  for (const GroupFigures& group : job.groups)
    if (group.feeds_loaders()) name = group.name;
  return " (--group " + name + "=" + std::to_string(c.count) + "x" + c.type + ":feed)";
}

// The first type of the job without a price.
std::string unpriced(const JobFigures& job) {
  for (const GroupFigures& group : job.groups)
    if (group.price_per_hour <= 0) return group.instance_type;
  return "";
}

// What the present helpers do and cost, and cheaper ones that would do.
std::string feed_text(const Advice& advice, const JobFigures& job) {
  if (!advice.feed) return "";
  const FeedUse& feed = *advice.feed;
  std::string out = " Its helpers (" + feed.groups + ") " +
                    formatted("use %.1f of their %.0f vCPUs at %.1f ms CPU a sample", feed.vcpus_used,
                              feed.vcpus, advice.data_cpu_s_per_sample * 1000) +
                    formatted("; %.1f would feed it.", feed.vcpus_needed);
  if (feed.price_per_hour > 0 && job.price_per_hour() > 0)
    out += formatted(" They are %.3f of the %.3f $/h.", feed.price_per_hour, job.price_per_hour());
  if (advice.data_binds || advice.candidates.empty()) return out;
  const Candidate& best = advice.candidates.front();
  return out + " As fast and " + formatted("%.0f %% cheaper per step: ", *best.price_performance * 100) +
         std::to_string(best.count) + " " + best.type + " in their place" + group_to_type(best, job) + ".";
}

std::string link_rate_text(double bytes_per_s) {
  const double megabytes = bytes_per_s / 1e6;
  return formatted(megabytes >= 100 ? "%.0f MB/s" : "%.3g MB/s", megabytes);
}

// Bytes a second that came while the wire was waited for, where it is what binds: the trainer's own step
// needs more, and it allows fewer samples than the helpers' cores do. Senders that are held back by their
// quota make a wire look slow too.
std::optional<double> binding_link(const JobFigures& job, const Work& work, double own_step_s) {
  if (job.starved_s <= kLinkBusy * job.window_s) return std::nullopt;
  double helper_cores = 0;
  for (const GroupFigures& group : job.groups)
    if (group.feeds_loaders()) helper_cores += group.cores * group.count;
  const double link_step_s = job.starved_s / static_cast<double>(job.steps);
  if (helper_cores <= 0 || link_step_s <= kWorthwhile * std::max(own_step_s, work.fed_s(helper_cores)))
    return std::nullopt;
  return job.received_bytes / job.starved_s;
}

std::string link_text(const Advice& advice, const JobFigures& job) {
  return formatted(
             "The link binds: samples come over it at %s and no faster. The trainer waits %.0f %% of "
             "its step and,",
             link_rate_text(*advice.link_bytes_per_s).c_str(), advice.wait_share * 100) +
         formatted(" fed, could step in %.0f ms where it takes %.0f ms; that takes %s.",
                   advice.own_step_s * 1000, advice.step_s * 1000,
                   link_rate_text(job.received_bytes / static_cast<double>(job.steps) / advice.own_step_s)
                       .c_str()) +
         feed_text(advice, job) +
         " More of them would not help; a faster network would, or fewer bytes per sample (pictures as "
         "uint8, made "
         "floats and normalized on the accelerator).";
}

std::string summary_of(const Advice& advice, const JobFigures& job, const Work& work, const std::string& type,
                       bool sibling_exists) {
  const double wait = advice.wait_share * 100, own_ms = advice.own_step_s * 1000,
               step_ms = advice.step_s * 1000;
  if (!advice.data_binds && advice.wait_share > kFed && work.is_rounded_up())
    return formatted(
               "The trainer waits for data %.0f %% of a step of %.2f ms, but handing a batch over costs of "
               "that order, which these figures leave out: they do not tell what would help. Larger batches "
               "would, or advise on a job with a real step.",
               wait, step_ms) +
           feed_text(advice, job);
  if (!advice.data_binds && advice.wait_share > kFed)
    return formatted(
               "The trainer waits for data %.0f %% of its step, but at its CPU quota the work of its own "
               "process (training, and taking in what it is fed) fills %.0f of the %.0f ms: more CPUs for "
               "data would not help, more of its own would.",
               wait, own_ms, step_ms) +
           feed_text(advice, job);
  if (!advice.data_binds)
    return formatted(
               "The trainer waits for data %.0f %% of its step: it is fed. More CPUs would not help; a "
               "faster accelerator or a smaller step would.",
               wait) +
           feed_text(advice, job);
  if (advice.link_bytes_per_s) return link_text(advice, job);
  std::string out =
      work.stretched
          ? formatted(
                "Making samples binds: it takes CPU time that the trainer computes with, and all of it is "
                "used. The trainer waits %.0f %% of its step and, fed, could step in %.0f ms where it takes "
                "%.0f ms",
                wait, own_ms, step_ms)
          : formatted(
                "Making samples binds: the trainer waits %.0f %% of its step and, fed, could step in %.0f ms "
                "where it takes %.0f ms",
                wait, own_ms, step_ms);
  const double fed_ms = work.fed_own_s() * 1000;
  out +=
      fed_ms > kWorthwhile * own_ms
          ? formatted(" (%.0f ms with helpers: taking in what they send is its own process's work).", fed_ms)
          : ".";
  if (advice.feed)
    out += feed_text(advice, job);
  else if (advice.vcpus_per_accelerator > 0)
    out += formatted(" It would take %.0f vCPUs per accelerator to feed it; there are %.0f.",
                     advice.vcpus_per_accelerator_needed, advice.vcpus_per_accelerator);
  if (!sibling_exists && !advice.feed)
    out += " There is no machine in the family of " + type + " with more vCPUs per accelerator.";
  if (advice.candidates.empty()) return out + " Nothing in the catalogue would make it faster.";
  const Candidate& best = advice.candidates.front();
  std::string what = std::to_string(best.count) + " " + best.type;
  if (best.kind == Candidate::Kind::kSibling)
    what = "Moving to " + best.type + (advice.feed ? ", without helpers" : "");
  else
    what = (advice.feed ? what + " in the helpers' place" : "Adding " + what) + group_to_type(best, job);
  out += " Best: " + what + formatted(", %.1fx faster", best.speedup);
  if (!best.price_performance)
    return out + "; whether it is cheaper per step is not known, since " + unpriced(job) +
           " has no price (`price=` in a group's type, or instance-types.json, gives one).";
  if (*best.price_performance > 0)
    return out + formatted(", %.0f %% cheaper per step.", *best.price_performance * 100);
  return out + ", but dearer per step: nothing makes it both faster and cheaper.";
}

}  // namespace

Result<Advice> advise(const JobFigures& job, const std::vector<Offer>& offers) {
  STOKER_ASSIGN(Work work, work_of(job));
  Advice advice;
  advice.job = job.job;
  advice.notices = job.notices;
  if (!work.believable || is_short(job)) advice.notices.push_back(shortness_text(job));
  advice.wait_share = job.wait_share();
  advice.step_s = job.step_s();
  advice.own_step_s = work.own_s(work.cores());
  advice.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample;
  advice.data_binds =
      (job.wait_share() > kFed || work.stretched) && advice.step_s > kWorthwhile * advice.own_step_s;
  if (advice.data_binds && work.is_rounded_up())
    advice.notices.push_back(
        formatted("without waiting a step takes %.2f ms, less than handing a batch over may cost: none is "
                  "predicted to take less than %.0f ms",
                  work.unrounded_own_s(work.cores()) * 1000, kFinest_s * 1000));
  if (work.trainers->accelerators > 0) {
    double accelerators = work.trainers->accelerators * work.trainers->count;
    advice.vcpus_per_accelerator = work.trainers->vcpus / work.trainers->accelerators;
    // The trainer keeps the cores it computes with; the samples need D per own step on top.
    advice.vcpus_per_accelerator_needed =
        (work.data_cpu_s + work.trainer_cpu_s) / advice.own_step_s / job.cpu_scale / accelerators;
  }
  if (job.fed) advice.feed = feed_use(job, work.data_cpu_s / advice.own_step_s);
  const bool cpu_suffices = advice.feed && advice.feed->vcpus_used < kShort * advice.feed->vcpus;
  if (advice.data_binds && cpu_suffices) advice.link_bytes_per_s = binding_link(job, work, advice.own_step_s);
  const Offer current = current_offer(*work.trainers, offers);
  advice.candidates = candidates(job, work, offers, current, advice.data_binds);
  if (advice.link_bytes_per_s)  // other helpers would send over it too
    std::erase_if(advice.candidates, [](const Candidate& c) { return c.kind == Candidate::Kind::kHelpers; });
  bool sibling_exists = current.family.empty() || has_sibling(offers, current);
  advice.summary = summary_of(advice, job, work, current.type, sibling_exists);
  return advice;
}

Json to_json(const Advice& advice) {
  Json candidates = Json::Array{};
  for (const Candidate& c : advice.candidates) {
    Json out;
    out.set("kind", c.kind == Candidate::Kind::kSibling ? "sibling" : "helpers")
        .set("instance_type", c.type)
        .set("count", c.count);
    out.set("step_ms", c.step_s * 1000).set("price_per_hour", money_json(c.price_per_hour));
    out.set("cost_per_100_steps", money_json(c.cost_per_100_steps)).set("speedup", c.speedup);
    out.set("price_performance", c.price_performance ? Json(*c.price_performance) : Json())
        .set("binds", c.binds);
    candidates.push(std::move(out));
  }
  Json out;
  out.set("job", advice.job)
      .set("binds", advice.link_bytes_per_s ? "link"
                    : advice.data_binds     ? "data"
                                            : "trainer")
      .set("link_bytes_per_s", advice.link_bytes_per_s ? Json(*advice.link_bytes_per_s) : Json())
      .set("wait_share", advice.wait_share);
  out.set("step_ms", advice.step_s * 1000).set("own_step_ms", advice.own_step_s * 1000);
  out.set("data_cpu_ms_per_sample", advice.data_cpu_s_per_sample * 1000);
  out.set("vcpus_per_accelerator", advice.vcpus_per_accelerator);
  out.set("vcpus_per_accelerator_needed", advice.vcpus_per_accelerator_needed);
  if (advice.feed) {
    Json feed;
    feed.set("groups", advice.feed->groups).set("vcpus", advice.feed->vcpus);
    feed.set("vcpus_used", advice.feed->vcpus_used).set("vcpus_needed", advice.feed->vcpus_needed);
    out.set("feed", feed.set("price_per_hour", money_json(advice.feed->price_per_hour)));
  }
  out.set("candidates", std::move(candidates)).set("summary", advice.summary);
  out.set("notices", Json::Array(advice.notices.begin(), advice.notices.end()));
  return out;
}

}  // namespace stoker::control
