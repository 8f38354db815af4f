// SPDX-License-Identifier: Apache-2.0
#include "control/resizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/test_jobs.h"

namespace stoker::control {
namespace {

// A running job whose groups of MIN..MAX instances have been told to grow. Times are its own.
class Running {
 public:
  Running(const std::string& name, const std::vector<std::string>& groups)
      : spec_(example_job(groups, name)), state_(new_job(spec_, 1000, 7)) {
    feed(Placed{});
    for (const HostState& host : std::vector<HostState>(state_.hosts)) tell(host.name, agent::Started{1});
  }
  void feed(const JobEvent& event) { (void)apply(spec_, state_, event, now_ += 10); }
  template <typename What>
  void tell(const std::string& host, What what) {
    feed(FromAgent{host, {state_.find_host(host)->last_event + 1, now_, what}});
  }
  void wants(const std::string& by, const std::string& group, int64_t wanted) {
    for (const HostState& host : std::vector<HostState>(state_.hosts))
      if (host.group == by) tell(host.name, agent::WantedSize{group, wanted, 1, 300, 100, 0.4, "it waits"});
  }
  void has(const std::string& by, const std::string& group, int64_t wanted) {
    wants(by, group, wanted);
    feed(Resized{group, wanted, {}});
  }
  void give_back(const std::string& host) {
    tell(host, agent::Stopped{0, 0, false});
    tell(host, agent::Released{});
  }
  std::vector<Resized> next() const { return next_resizes(spec_, state_, now_); }
  Holder holder() const { return {spec_.name, spec_, state_}; }
  const JobState& state() const { return state_; }

 private:
  JobSpec spec_;
  JobState state_;
  int64_t now_ = 1000;
};

constexpr const char* kSmall = "cpus=1,memory=1";
std::string text_of(const std::vector<Yield>& yields) {
  std::string text;
  for (const Yield& yield : yields)
    text += yield.job + " " + yield.to.group + " " + std::to_string(yield.to.to) + "; ";
  return text;
}
// Machines of so many of the example's instances of one CPU.
Machine of_small_ones(int count) { return {0.04 * count, int64_t{16} << 30, 0, ""}; }
Waiting front(int small_ones) { return {"front", {0.04 * small_ones, 0, 0}}; }

TEST(Resizing, GroupThatCannotGrowDoesNotKeepAnotherFromShrinking) {
  Running job("job",
              {"train=1xhere", "eval=1xhere", "data=1..4xhere:feed@train", "more=1..4xhere:feed@eval"});
  job.has("eval", "more", 4);
  job.wants("train", "data", 4);
  job.wants("eval", "more", 1);
  EXPECT_EQ(job.next(), (std::vector<Resized>{{"more", 1, {}}, {"data", 4, {}}}));
}

TEST(Resizing, GroupsShareWhatAJobMayStillHave) {
  Running job("job",
              {"train=1xhere", "eval=1xhere", "data=1..30xhere:feed@train", "more=1..30xhere:feed@eval"});
  for (int i = 0; i < 7; ++i) {
    job.has("train", "data", 30);
    job.has("train", "data", 1);
  }
  const auto left = static_cast<int64_t>(kMostHostsOfAJob - job.state().hosts.size());
  job.wants("train", "data", 30);
  job.wants("eval", "more", 30);
  int64_t more = 0;
  for (const Resized& next : job.next()) more += next.to - 1;
  EXPECT_EQ(more, std::min<int64_t>(left, 58));
}

TEST(Resizing, AddedInstancesMakeRoomForTheQueueNewestFirstAndNoMoreThanItNeeds) {
  Running a("a", {std::string("train=1x") + kSmall, std::string("data=1..4x") + kSmall + ":feed"});
  Running b("b", {std::string("train=1x") + kSmall, std::string("data=1..4x") + kSmall + ":feed"});
  a.has("train", "data", 4);
  b.has("train", "data", 2);
  const std::vector<Holder> both = {a.holder(), b.holder()};
  const Machine machine = of_small_ones(8);
  EXPECT_EQ(text_of(make_room(front(1), both, machine)), "b data 1; ");
  EXPECT_EQ(text_of(make_room(front(3), both, machine)), "a data 2; b data 1; ");
  EXPECT_EQ(text_of(make_room(front(4), both, machine)), "a data 1; b data 1; ");
  EXPECT_EQ(text_of(make_room(front(5), both, machine)), "") << "it would wait none the less";
  EXPECT_EQ(text_of(make_room(front(1), both, of_small_ones(9))), "") << "it fits";
}

TEST(Resizing, WhatIsOnItsWayBackIsNotDrainedTwice) {
  Running job("a", {std::string("train=1x") + kSmall, std::string("data=1..4x") + kSmall + ":feed"});
  job.has("train", "data", 4);
  const Machine machine = of_small_ones(5);
  const auto yields = make_room(front(2), {job.holder()}, machine);
  EXPECT_EQ(text_of(yields), "a data 2; ");
  job.feed(yields.front().to);
  EXPECT_EQ(job.state().resizes.back().reason, "job front is queued and needs what it has");
  EXPECT_EQ(text_of(make_room(front(2), {job.holder()}, machine)), "");
  EXPECT_EQ(text_of(make_room(front(3), {job.holder()}, machine)), "a data 1; ");
  job.give_back("algo-5");
  EXPECT_EQ(text_of(make_room(front(2), {job.holder()}, machine)), "");
}

TEST(Resizing, NothingIsDrainedForWhatAnEndingJobWillLeave) {
  Running a("a", {std::string("train=1x") + kSmall, std::string("data=1..4x") + kSmall + ":feed"});
  Running b("b", {std::string("train=1x") + kSmall});
  a.has("train", "data", 4);
  EXPECT_EQ(text_of(make_room(front(1), {a.holder(), b.holder()}, of_small_ones(6))), "a data 3; ");
  b.feed(StopAsked{"enough"});
  EXPECT_EQ(text_of(make_room(front(1), {a.holder(), b.holder()}, of_small_ones(6))), "");
}

TEST(Resizing, InstancesThatHaveNothingOfWhatIsShortStay) {
  Running job("a", {std::string("train=1x") + kSmall, "data=1..2xcpus=4,memory=1:feed@train",
                    "eval=1xcpus=1,memory=1", std::string("more=1..2x") + kSmall + ":feed@eval"});
  job.has("train", "data", 2);
  job.has("eval", "more", 2);
  EXPECT_EQ(text_of(make_room(front(4), {job.holder()}, of_small_ones(12))), "a data 1; ");
}

}  // namespace
}  // namespace stoker::control
