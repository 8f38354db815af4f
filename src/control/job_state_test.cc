// SPDX-License-Identifier: Apache-2.0
#include "control/job_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "control/resizing.h"
#include "control/test_jobs.h"

namespace stoker::control {
namespace {

using testing::HasSubstr;

// A job and its agents, driven by hand. Hosts are named by group and rank ("train0").
class Life {
 public:
  explicit Life(const std::vector<std::string>& groups)
      : spec_(example_job(groups)), state_(new_job(spec_, 1000, 7)) {}

  std::string host(const std::string& label) const {
    for (const HostState& host : state_.hosts)
      if (host.group + std::to_string(host.rank) == label) return host.name;
    return "none";
  }
  std::set<std::string> feed(const JobEvent& event) {
    std::set<std::string> stopped;
    for (const StopHost& stop : apply(spec_, state_, event, now_ += 10).stops) {
      const HostState& host = *state_.find_host(stop.host);
      stopped.insert(host.group + std::to_string(host.rank));
      grace_ = stop.grace_s;
    }
    return stopped;
  }
  template <typename What>
  std::set<std::string> agent(const std::string& label, What what) {
    int64_t seq = state_.find_host(host(label))->last_event + 1;
    return feed(FromAgent{host(label), {seq, now_, what}});
  }
  void start() {
    feed(Placed{});
    for (const HostState& host : std::vector<HostState>(state_.hosts))
      agent(host.group + std::to_string(host.rank), agent::Started{1});
  }
  std::set<std::string> exits(const std::string& label, int code) {
    return agent(label, agent::Exited{code, 0, false, "exit code " + std::to_string(code), ""});
  }
  void release_all() {
    for (const HostState& host : std::vector<HostState>(state_.hosts)) {
      std::string label = host.group + std::to_string(host.rank);
      if (host.phase < HostPhase::kEnded) agent(label, agent::Stopped{143, 15, false});
      agent(label, agent::Released{});
    }
  }
  const JobState& state() const { return state_; }
  const JobSpec& spec() const { return spec_; }
  int64_t now() const { return now_; }
  void pass(int64_t ms) { now_ += ms; }
  std::string phase() const { return phase_name(state_.phase); }
  double grace() const { return grace_; }

 private:
  JobSpec spec_;
  JobState state_;
  int64_t now_ = 1000;
  double grace_ = 0;
};

using Names = std::set<std::string>;

TEST(JobState, GoodEnd) {
  Life job({"train=1xhere"});
  EXPECT_EQ(job.phase(), "queued");
  job.feed(Placed{});
  EXPECT_EQ(job.phase(), "preparing");
  job.agent("train0", agent::Preparing{"requirements"});
  EXPECT_EQ(job.state().hosts[0].step, "requirements");
  job.agent("train0", agent::Started{1});
  EXPECT_EQ(job.phase(), "running");
  EXPECT_EQ(job.exits("train0", 0), Names{});
  EXPECT_EQ(job.phase(), "stopping");
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
  EXPECT_EQ(job.state().exit_code, 0);
  EXPECT_GT(job.state().over_ms, job.state().placed_ms);
}

TEST(JobState, FeedIsStoppedWhenTheTrainingItServesHasEnded) {
  Life job({"train=1xhere", "data=2xhere:feed"});
  job.start();
  EXPECT_EQ(job.exits("train0", 0), (Names{"data0", "data1"}));
  EXPECT_EQ(job.grace(), kHelperGraceS);
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, FeedIsStoppedWhenTheTrainingFails) {
  Life job({"train=1xhere", "data=1xhere:feed"});
  job.start();
  EXPECT_EQ(job.exits("train0", 3), Names{"data0"});
  job.release_all();
  EXPECT_EQ(job.phase(), "failed");
  EXPECT_EQ(job.state().exit_code, 3);
  EXPECT_THAT(job.state().failure_reason, HasSubstr("AlgorithmError: exit code 3 (train/algo-"));
}

TEST(JobState, HelperThatServesOneGroupEndsBeforeTheOtherGroup) {
  Life job({"a=1xhere", "b=1xhere", "d=1xhere:feed@a", "e=1xhere:aux"});
  job.start();
  EXPECT_EQ(job.exits("a0", 0), Names{"d0"});
  EXPECT_EQ(job.phase(), "running");
  EXPECT_EQ(job.exits("b0", 0), Names{"e0"});
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, JobEndsWhenAllTrainingInstancesHaveEnded) {
  Life job({"train=3xhere"});
  job.start();
  EXPECT_EQ(job.exits("train1", 0), Names{});
  EXPECT_EQ(job.exits("train0", 0), Names{});
  EXPECT_EQ(job.phase(), "running");
  job.exits("train2", 0);
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, FirstFailureStopsTheOthersAndIsTheOneTold) {
  Life job({"train=3xhere"});
  job.start();
  EXPECT_EQ(job.exits("train2", 9), (Names{"train0", "train1"}));
  job.exits("train0", 5);
  job.agent("train1", agent::Stopped{143, 15, false});
  job.release_all();
  EXPECT_EQ(job.state().exit_code, 9);
  EXPECT_EQ(job.phase(), "failed");
}

TEST(JobState, FailureFileIsTold) {
  Life job({"train=1xhere"});
  job.start();
  job.agent("train0", agent::Exited{1, 0, false, "exit code 1", "ValueError: bad learning rate"});
  job.release_all();
  EXPECT_THAT(job.state().failure_reason,
              HasSubstr("AlgorithmError: ValueError: bad learning rate, exit code: 1"));
}

TEST(JobState, InstanceThatCannotBePreparedAsAskedIsNotTheScriptsFailure) {
  Life job({"train=1xhere"});
  job.feed(Placed{});
  job.agent("train0", agent::Exited{125, 0, false, "pip could not install requirements.txt: no such", ""});
  job.release_all();
  EXPECT_EQ(job.state().exit_code, 125);
  EXPECT_EQ(job.state().failure_reason,
            "ClientError: pip could not install requirements.txt: no such; the script was not started "
            "(train/algo-1)");
}

TEST(JobState, HelperThatCannotBePreparedEndsTheJobWithThePlatformsCode) {
  Life job({"train=1xhere", "data=1xhere:feed"});
  job.feed(Placed{});
  job.agent("train0", agent::Started{1});
  EXPECT_EQ(job.agent("data0", agent::Exited{125, 0, false, "input 'a': is no folder", ""}), Names{"train0"});
  job.release_all();
  EXPECT_EQ(job.state().exit_code, 125);
  EXPECT_THAT(job.state().failure_reason, HasSubstr("ClientError: input 'a'"));
}

TEST(JobState, FailureThatIsCutInACharacterComesBackFromTheTable) {
  Life job({"train=1xhere"});
  job.start();
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\xc3\xa4";
  job.agent("train0", agent::Exited{1, 0, false, "exit code 1", text});
  EXPECT_TRUE(Json::parse(job.state().to_json().dump()).ok());
  EXPECT_THAT(job.state().failure_reason, HasSubstr("\xc3\xa4, exit code: 1"));
}

TEST(JobState, PlatformFailureIsNotTheUsers) {
  Life job({"train=1xhere", "data=1xhere:feed"});
  job.feed(Placed{});
  EXPECT_EQ(job.agent("data0", agent::Failed{"mounts", "no space"}), Names{"train0"});
  job.release_all();
  EXPECT_EQ(job.phase(), "failed");
  EXPECT_EQ(job.state().exit_code, 125);
  EXPECT_THAT(job.state().failure_reason, HasSubstr("InternalServerError: mounts: no space (data/"));
}

TEST(JobState, LostAgentFailsTheJobAndCountsAsReleased) {
  Life job({"train=1xhere"});
  job.start();
  job.feed(AgentLost{job.host("train0"), "its agent ended with exit code 1"});
  EXPECT_EQ(job.phase(), "failed");
  EXPECT_EQ(job.state().exit_code, 125);
}

TEST(JobState, SilentAgentIsToldAndEndsNothing) {
  Life job({"train=1xhere"});
  job.start();
  job.feed(AgentSilent{job.host("train0"), false});
  job.feed(AgentSilent{job.host("train0"), true});
  for (bool back : {false, false, true}) job.feed(AgentSilent{job.host("train0"), back});
  EXPECT_EQ(job.phase(), "running");
  ASSERT_EQ(job.state().notices.size(), 4u);  // also the second time, once each
  for (size_t i = 0; i < 4; i += 2) {
    EXPECT_THAT(job.state().notices[i], HasSubstr(": its agent has not been heard of for a minute"));
    EXPECT_THAT(job.state().notices[i], HasSubstr("`stoker stop`"));
    EXPECT_THAT(job.state().notices[i + 1], HasSubstr(": its agent is heard of again"));
  }
  job.exits("train0", 0);
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, SilentAgentOfAJobThatEndsIsNotToldToBeStopped) {
  Life job({"train=1xhere"});
  job.start();
  job.feed(StopAsked{"asked"});
  job.feed(AgentSilent{job.host("train0"), false});
  ASSERT_EQ(job.state().notices.size(), 1u);
  EXPECT_THAT(job.state().notices[0], testing::Not(HasSubstr("`stoker stop`")));
}

TEST(JobState, OneOfTwoHelpersMayGo) {
  Life job({"train=1xhere", "data=2xhere:feed"});
  job.start();
  EXPECT_EQ(job.exits("data0", 1), Names{});
  EXPECT_EQ(job.phase(), "running");
  EXPECT_EQ(job.exits("data1", 1), Names{"train0"});  // nobody is left to feed it
  job.release_all();
  EXPECT_EQ(job.phase(), "failed");
  EXPECT_THAT(job.state().failure_reason, HasSubstr("before the training had ended"));
}

TEST(JobState, HelperThatEndsWellIsFine) {
  Life job({"train=1xhere", "sim=1xhere:aux"});
  job.start();
  EXPECT_EQ(job.exits("sim0", 0), Names{});
  job.exits("train0", 0);
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, Stop) {
  Life job({"train=1xhere", "data=1xhere:feed"});
  job.start();
  EXPECT_EQ(job.feed(StopAsked{"asked"}), Names{"train0"});
  EXPECT_EQ(job.grace(), 120);
  EXPECT_EQ(job.feed(StopAsked{"again"}), Names{});
  EXPECT_EQ(job.phase(), "stopping");
  EXPECT_EQ(job.agent("train0", agent::Stopped{143, 15, false}), Names{"data0"});
  EXPECT_EQ(job.grace(), kHelperGraceS) << "within 10 s of the training's end, however it ends";
  job.release_all();
  EXPECT_EQ(job.phase(), "stopped");
  EXPECT_EQ(job.state().stop_reason, "asked");
  EXPECT_EQ(job.state().exit_code, 143);
}

TEST(JobState, NoticesHaveALimit) {
  Life job({"train=1xhere"});
  job.start();
  for (int i = 0; i < 150; ++i) job.agent("train0", agent::Notice{"notice " + std::to_string(i)});
  EXPECT_EQ(job.state().notices.size(), 100u);
}

TEST(JobState, ANoticeIsKeptOnce) {
  Life job({"train=1xhere"});
  job.start();
  for (int i = 0; i < 150; ++i) job.agent("train0", agent::Notice{"metrics: no space"});
  EXPECT_EQ(job.state().notices.size(), 1u);
}

TEST(JobState, StopWhileQueuedIsOverAtOnce) {
  Life job({"train=1xhere"});
  job.feed(StopAsked{"asked"});
  EXPECT_EQ(job.phase(), "stopped");
  EXPECT_EQ(job.state().placed_ms, 0);
  job.feed(Placed{});
  EXPECT_EQ(job.phase(), "stopped");
}

TEST(JobState, RepeatedAndLateEventsChangeNothing) {
  Life job({"train=2xhere"});
  job.start();
  FromAgent exited{job.host("train0"), {2, 0, agent::Exited{0, 0, false, "", ""}}};
  job.feed(exited);
  std::string before = job.state().to_json().dump();
  job.feed(exited);
  job.feed(FromAgent{job.host("train0"), {1, 0, agent::Started{1}}});
  job.feed(FromAgent{"algo-99", {1, 0, agent::Started{1}}});
  EXPECT_EQ(job.state().to_json().dump(), before);
}

TEST(JobState, NamesAreDealtToAllGroupsAndRanksAreDense) {
  JobSpec spec = example_job({"a=3xhere", "b=2xhere:feed"});
  std::set<std::string> dealings;
  for (uint64_t random = 0; random < 50; ++random) {
    JobState state = new_job(spec, 0, random);
    std::map<std::string, std::set<int64_t>> ranks;
    std::string dealt;
    for (size_t i = 0; i < state.hosts.size(); ++i) {
      EXPECT_EQ(state.hosts[i].name, "algo-" + std::to_string(i + 1));
      ranks[state.hosts[i].group].insert(state.hosts[i].rank);
      dealt += state.hosts[i].group;
    }
    EXPECT_EQ(ranks["a"], (std::set<int64_t>{0, 1, 2}));
    EXPECT_EQ(ranks["b"], (std::set<int64_t>{0, 1}));
    dealings.insert(dealt);
  }
  EXPECT_GT(dealings.size(), 5u);
}

TEST(JobState, ComesBackFromJson) {
  Life job({"train=1xhere", "data=1xhere:feed"});
  job.start();
  job.agent("data0", agent::Notice{"no egress"});
  job.exits("train0", 3);
  auto back = JobState::from_json(job.state().to_json());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->to_json().dump(), job.state().to_json().dump());
}

// ---- groups of MIN..MAX instances

agent::WantedSize wants(int64_t wanted, const std::string& group = "data") {
  return {group, wanted, 1, 300, 100, 0.4, "the loop waits 40 % of the time"};
}

// What the controller does when machines are free.
Names resize(Life& job) {
  auto next = next_resizes(job.spec(), job.state(), job.now());
  return next.empty() ? Names{"nothing to do"} : job.feed(next.front());
}

TEST(JobState, FeedGroupGrowsToWhatIsWantedWithinItsLimits) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  EXPECT_TRUE(next_resizes(job.spec(), job.state(), job.now()).empty());
  job.agent("train0", wants(3));
  EXPECT_EQ(resize(job), Names{});
  ASSERT_EQ(job.state().hosts.size(), 4u);
  EXPECT_EQ(job.state().hosts[3].name, "algo-4");
  EXPECT_EQ(job.state().hosts[3].rank, 2);
  EXPECT_EQ(job.state().hosts[3].phase, HostPhase::kPreparing);
  EXPECT_EQ(job.phase(), "running");
  ASSERT_EQ(job.state().resizes.size(), 1u);
  EXPECT_EQ(job.state().resizes[0].from, 1);
  EXPECT_EQ(job.state().resizes[0].to, 3);
  EXPECT_THAT(job.state().resizes[0].reason, HasSubstr("waits 40 %"));
  EXPECT_EQ(resize(job), Names{"nothing to do"});
  job.agent("train0", wants(100));
  resize(job);
  EXPECT_EQ(job.state().instances("data"), 4);
  EXPECT_EQ(job.state().sizes.at("data").asked.wanted, 100);
}

TEST(JobState, FeedGroupShrinksToItsLeastNewestFirstAndGrowsAgainUnderNewNames) {
  Life job({"train=1xhere", "data=2..4xhere:feed"});
  job.start();
  job.agent("train0", wants(4));
  resize(job);
  job.agent("data3", agent::Started{1});
  job.agent("train0", wants(1));
  EXPECT_EQ(resize(job), (Names{"data2", "data3"}));
  EXPECT_EQ(job.grace(), kDrainGraceS);
  EXPECT_EQ(job.state().shown()["instances"].dump(), R"({"data":2,"train":1})");
  EXPECT_EQ(resize(job), Names{"nothing to do"}) << "MIN stay";
  job.agent("data2", agent::Stopped{0, 0, false});  // had not even started
  job.agent("data3", agent::Stopped{0, 0, false});
  job.agent("data2", agent::Released{});
  job.agent("data3", agent::Released{});
  EXPECT_EQ(job.phase(), "running");
  EXPECT_TRUE(job.state().notices.empty());
  job.agent("train0", wants(3));
  resize(job);
  EXPECT_EQ(job.state().hosts.back().name, "algo-6");
  EXPECT_EQ(job.exits("train0", 0), (Names{"data0", "data1", "data4"}));
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
  EXPECT_EQ(job.state().resizes.size(), 3u);
}

TEST(JobState, InstanceThatIsToldToEndBeforeItRunsHasNoNotices) {
  Life job({"train=1xhere", "data=1..2xhere:feed"});
  job.start();
  job.agent("train0", wants(2));
  resize(job);
  job.agent("data1", agent::Notice{"no egress, and it will run"});
  EXPECT_EQ(job.exits("train0", 0), (Names{"data0", "data1"}));
  job.agent("data0", agent::Notice{"it ran"});
  job.agent("data1", agent::Notice{"no egress: the job's network was made again"});
  job.agent("data1", agent::Stopped{0, 0, false});
  job.agent("data1", agent::Notice{"left behind"});
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
  std::string all;
  for (const std::string& notice : job.state().notices) all += notice.substr(notice.find(": ") + 2) + "|";
  EXPECT_EQ(all, "no egress, and it will run|it ran|left behind|");
}

TEST(JobState, AddedInstanceThatFailsIsToldAndIsNotTheJobsEnd) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  job.agent("train0", wants(2));
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(resize(job), Names{});
    job.feed(AgentLost{job.host("data" + std::to_string(i)), "no room"});
    EXPECT_EQ(job.phase(), "running");
    EXPECT_EQ(resize(job), Names{"nothing to do"}) << "what fails may pass";
    EXPECT_EQ(next_try_ms(job.state(), job.now()),
              i < 3 ? std::optional(job.now() + i * kAgainMs) : std::nullopt);
    job.pass(i * kAgainMs);
  }
  EXPECT_EQ(resize(job), Names{"nothing to do"});
  ASSERT_EQ(job.state().notices.size(), 3u);
  EXPECT_EQ(job.state().notices[0], "data/algo-3, which had been added, is gone: no room");
  EXPECT_THAT(job.state().notices[2], HasSubstr("the group grows no more"));
  job.exits("train0", 0);
  job.release_all();
  EXPECT_EQ(job.phase(), "completed");
}

TEST(JobState, MachineThatIsNotFreeIsToldOnce) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  job.agent("train0", wants(2));
  for (int i = 0; i < 3; ++i) job.feed(NotFree{"data", "needs 1 cores, 0 are free"});
  ASSERT_EQ(job.state().notices.size(), 1u);
  EXPECT_EQ(job.state().notices[0],
            "data would have 2 instances and has 1: another one needs 1 cores, 0 are free");
  resize(job);
  job.agent("train0", wants(3));
  job.feed(NotFree{"data", "needs 1 cores, 0 are free"});
  EXPECT_EQ(job.state().notices.size(), 2u);
}

TEST(JobState, SizingOfAnotherGroupOrOfAPlainOneChangesNothing) {
  Life job({"train=1xhere", "eval=1xhere", "data=1..4xhere:feed@train", "more=1xhere:feed@eval"});
  job.start();
  job.agent("eval0", wants(3));
  job.agent("eval0", wants(3, "more"));
  job.agent("train0", wants(3, "nobody"));
  EXPECT_TRUE(job.state().sizes.empty());
  EXPECT_TRUE(next_resizes(job.spec(), job.state(), job.now()).empty());
}

TEST(JobState, WhatIsSaidAgainIsNotKeptAgain) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  JobState state = job.state();
  auto changed = [&](agent::WantedSize what, int64_t seq) {
    return apply(job.spec(), state, FromAgent{job.host("train0"), {seq, 0, std::move(what)}}, 5000).changed;
  };
  EXPECT_TRUE(changed(wants(3), 2));
  EXPECT_FALSE(changed(wants(3), 3));
  EXPECT_TRUE(changed(wants(2), 4));
}

TEST(JobState, MoreInstancesThanAJobMayHaveAreToldOnceWhenGrowthStops) {
  Life job({"train=1xhere", "data=1..60xhere:feed"});
  job.start();
  for (int i = 0; i < 6; ++i) {
    job.agent("train0", wants(60));
    resize(job);
    job.agent("train0", wants(1));
    resize(job);
  }
  EXPECT_EQ(job.state().hosts.size(), kMostHostsOfAJob);
  job.agent("train0", wants(60));
  EXPECT_EQ(resize(job), Names{"nothing to do"});
  EXPECT_EQ(job.state().notices,
            std::vector<std::string>{"data grows no more: the job has had 240 instances, those it gave "
                                     "back included, which is the most"});
}

TEST(JobState, NothingIsResizedOnceTheEndIsDecided) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  job.agent("train0", wants(3));
  job.feed(StopAsked{"enough"});
  EXPECT_TRUE(next_resizes(job.spec(), job.state(), job.now()).empty());
  job.feed(Resized{"data", 3, {}});
  EXPECT_EQ(job.state().hosts.size(), 2u);
  job.release_all();
  EXPECT_EQ(job.phase(), "stopped");
}

TEST(JobState, SizesSurviveTheTable) {
  Life job({"train=1xhere", "data=1..4xhere:feed"});
  job.start();
  job.agent("train0", wants(3));
  resize(job);
  job.feed(NotFree{"data", "why"});
  auto again = JobState::from_json(job.state().to_json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->to_json(), job.state().to_json());
  EXPECT_EQ(again->sizes, job.state().sizes);
  EXPECT_EQ(again->resizes, job.state().resizes);
  EXPECT_TRUE(again->hosts.back().extra);
}

}  // namespace
}  // namespace stoker::control
