// SPDX-License-Identifier: Apache-2.0
#include "control/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "base/test_folder.h"

namespace stoker::control {
namespace {

class NoMachines : public Provider {
 public:
  Status acquire(const std::string& agent, const agent::Assignment& assignment) override {
    acquired.push_back(agent);
    assignments[agent] = assignment;
    return ok();
  }
  void wake(const std::string& agent) override { woken.insert(agent); }
  void release(const std::string&) override {}
  void kill(const std::string& agent) override { killed(agent); }
  std::vector<std::string> list() const override { return acquired; }
  bool owes(const std::string& agent) const override { return agent == owed; }
  std::vector<std::string> acquired;
  std::set<std::string> woken;
  std::map<std::string, agent::Assignment> assignments;
  std::string owed;
  std::function<void(const std::string&)> killed = [](const std::string&) {};
};

// The system's, ahead by what a test says.
class ShiftedClock : public Clock {
 public:
  int64_t monotonic_ns() const override { return stoker::monotonic_ns(); }
  int64_t wall_ms() const override { return system_clock().wall_ms() + ahead_ms; }
  int64_t ahead_ms = 0;
};

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    std::filesystem::create_directories(home_ + "/code");
    std::ofstream(home_ + "/code/train.py") << "print(1)";
    store_ = *Store::open(home_ + "/jobs.db");
    controller_ = std::make_unique<Controller>(
        loop_, clock_, *store_, *Catalogue::built_in(),
        Controller::Options{home_, {1}, Machine{2, int64_t{16} << 30, 0, ""}, 0});
    auto machines = std::make_unique<NoMachines>();
    machines_ = machines.get();
    CHECK(controller_->open(std::move(machines)).ok());
  }

  Json request() const {
    Json json;
    json.set("script", home_ + "/code/train.py").set("name", "late").set("python", "/bin/sh");
    return json;
  }

  TestFolder own_;
  const std::string home_ = own_.path();
  ShiftedClock clock_;
  http::Loop loop_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Controller> controller_;
  NoMachines* machines_ = nullptr;
};

TEST_F(ControllerTest, JobWhoseCodeIsStillCopiedDoesNotStartInAServerThatEnds) {
  std::optional<Error> refused;
  controller_->submit(request(), [&](auto submitted) {
    if (!submitted.ok()) refused = submitted.error();
    loop_.stop();
  });
  EXPECT_FALSE(controller_->quiet()) << "somebody waits for an answer";
  controller_->end("test");
  loop_.run();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::kUnavailable);
  EXPECT_TRUE(controller_->quiet());
  EXPECT_TRUE(controller_->jobs().empty());
  EXPECT_TRUE(machines_->acquired.empty());
  EXPECT_TRUE(store_->jobs()->empty());
  EXPECT_FALSE(std::filesystem::exists(home_ + "/jobs/late"));
  controller_->submit(request(),
                      [&](auto submitted) { EXPECT_EQ(submitted.error().code, Code::kUnavailable); });
}

TEST_F(ControllerTest, OnlyAnEndedJobIsRemovedAndItsNameIsFreeThen) {
  Job* job = nullptr;
  std::weak_ptr<Job> lives;
  auto again = [&](auto submitted) {
    EXPECT_TRUE(submitted.ok()) << "the name is free";
    EXPECT_TRUE(lives.expired()) << "nobody holds it any more";
    loop_.stop();
  };
  auto removed = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(std::filesystem::is_empty(home_ + "/jobs"));
    EXPECT_TRUE(store_->jobs()->empty());
    controller_->submit(request(), again);
  };
  auto started = [&] {
    std::string refused;
    controller_->remove(*job,
                        [&](const Status& status) { refused = status.ok() ? "" : status.error().message; });
    EXPECT_EQ(refused, "job late has not ended; `stoker stop late` ends it");
    controller_->agent_ended("late.algo-1", "exit code 1");
    ASSERT_TRUE(job->over());
    EXPECT_TRUE(Controller::check_folder(*job).ok());
    controller_->remove(*job, removed);
    EXPECT_TRUE(controller_->find("late").ok()) << "its agent must not meet a new job of that name";
    machines_->acquired.clear();
    controller_->agent_ended("late.algo-1", "exit code 1");
    EXPECT_FALSE(controller_->find("late").ok());
    EXPECT_FALSE(controller_->quiet()) << "its folder is being removed";
  };
  controller_->submit(request(), [&](auto submitted) {
    job = submitted->job;
    lives = job->weak_from_this();
    loop_.post(started);
  });
  loop_.run();
  EXPECT_EQ(controller_->jobs().size(), 1u);
}

TEST_F(ControllerTest, NamesThatAreMadeUpAreAllDifferent) {
  class Noon : public Clock {
   public:
    int64_t monotonic_ns() const override { return stoker::monotonic_ns(); }
    int64_t wall_ms() const override { return 1795971605000; }
  } noon;
  Controller at_noon(loop_, noon, *store_, *Catalogue::built_in(),
                     Controller::Options{home_, {1}, Machine{2, int64_t{16} << 30, 0, ""}, 0});
  ASSERT_TRUE(at_noon.open(std::make_unique<NoMachines>()).ok());
  // A second has 65,536 names for a script: among 600 two are the same, but for one time in 16.
  Json unnamed = request();
  unnamed.set("name", Json());
  constexpr int kJobs = 600;
  int answered = 0;
  std::set<std::string> names;
  for (int i = 0; i < kJobs; ++i)
    at_noon.submit(unnamed, [&](auto submitted) {
      if (submitted.ok()) names.insert(submitted->job->name());
      if (++answered == kJobs) loop_.stop();
    });
  loop_.run();
  EXPECT_EQ(names.size(), size_t{kJobs});
}

TEST_F(ControllerTest, WhatAnEarlierServerHadYetToRemoveGoesWhileThisOneServes) {
  std::filesystem::create_directories(home_ + "/jobs/.removed-old-1/code");
  std::filesystem::create_directories(home_ + "/jobs/.removed-old-2/code");
  std::filesystem::create_directories(home_ + "/jobs/unfinished");
  std::ofstream(home_ + "/jobs/unfinished/.submitting") << "";
  Controller next(loop_, system_clock(), *store_, *Catalogue::built_in(),
                  Controller::Options{home_, {1}, Machine{2, int64_t{16} << 30, 0, ""}, 0});
  next.activity().once([&] { loop_.stop(); });
  ASSERT_TRUE(next.open(std::make_unique<NoMachines>()).ok());
  EXPECT_FALSE(next.quiet()) << "a server that ends would leave it to the next one";
  EXPECT_FALSE(std::filesystem::exists(home_ + "/jobs/unfinished"));
  loop_.run();
  EXPECT_TRUE(std::filesystem::is_empty(home_ + "/jobs"));
  EXPECT_TRUE(next.quiet());
}

TEST_F(ControllerTest, JobThatLeftSomethingIsNotRemovedBeforeThatIsCleared) {
  Job* job = nullptr;
  std::string refused;
  auto started = [&] {
    controller_->agent_ended("late.algo-1", "exit code 1");
    machines_->acquired.clear();
    machines_->owed = "late.algo-1";
    controller_->remove(*job, [&](const Status& status) {
      refused = status.ok() ? "" : status.error().message;
      loop_.stop();
    });
  };
  controller_->submit(request(), [&](auto submitted) {
    job = submitted->job;
    loop_.post(started);
  });
  loop_.run();
  EXPECT_NE(refused.find("could not be cleared yet"), std::string::npos) << refused;
  EXPECT_TRUE(std::filesystem::exists(job->folder));
}

TEST_F(ControllerTest, JobWhoseFolderWasRemovedByHandSaysSoAndCanBeRemoved) {
  Job* job = nullptr;
  auto removed = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    loop_.stop();
  };
  auto started = [&] {
    std::filesystem::remove_all(job->folder);
    EXPECT_TRUE(Controller::check_folder(*job).ok()) << "it still runs: its log may come";
    controller_->agent_ended("late.algo-1", "exit code 1");
    machines_->acquired.clear();
    ASSERT_FALSE(Controller::check_folder(*job).ok());
    EXPECT_EQ(Controller::check_folder(*job).error().code, Code::kNotFound);
    controller_->remove(*job, removed);
    EXPECT_EQ(controller_->find("late").error().code, Code::kNotFound);
  };
  controller_->submit(request(), [&](auto submitted) {
    job = submitted->job;
    loop_.post(started);
  });
  loop_.run();
  EXPECT_TRUE(controller_->jobs().empty());
}

TEST_F(ControllerTest, SubmittedJobGetsItsMachine) {
  controller_->submit(request(), [&](auto submitted) {
    EXPECT_TRUE(submitted.ok()) << submitted.error().message;
    loop_.post([&] { loop_.stop(); });
  });
  loop_.run();
  EXPECT_EQ(machines_->acquired, std::vector<std::string>{"late.algo-1"});
  EXPECT_FALSE(controller_->quiet());
}

TEST_F(ControllerTest, AgentIsNotKilledForAnEarlierJobOfItsName) {
  bool killed = false;
  machines_->killed = [&](const std::string&) { killed = true; };
  Json patient = request();
  patient.set("grace_s", 0.05);
  auto again = [&](auto submitted) {
    ASSERT_TRUE(submitted.ok());
    loop_.after(std::chrono::milliseconds(150), [&] { loop_.stop(); });  // beyond the first one's grace
  };
  controller_->submit(patient, [&](auto submitted) {
    loop_.post([&, job = submitted->job] {
      EXPECT_TRUE(controller_->stop(*job, "asked").ok());
      machines_->acquired.clear();
      controller_->agent_ended("late.algo-1", "exit code 1");
      controller_->remove(*job, [&](const Status&) { controller_->submit(patient, again); });
    });
  });
  loop_.run();
  EXPECT_FALSE(killed);
  EXPECT_EQ(machines_->acquired.size(), 1u);
}

TEST_F(ControllerTest, AgentThatDoesNotEndAfterTheGraceIsKilledAndItsJobIsOver) {
  machines_->killed = [&](const std::string& agent) {
    machines_->acquired.clear();
    controller_->agent_ended(agent, "killed by signal 9 (Killed)");
    loop_.post([&] { loop_.stop(); });
  };
  Json stubborn = request();
  stubborn.set("grace_s", 0);
  controller_->submit(stubborn, [&](auto submitted) {
    ASSERT_TRUE(submitted.ok()) << submitted.error().message;
    loop_.post([&] { EXPECT_TRUE(controller_->stop(**controller_->find("late"), "asked").ok()); });
  });
  loop_.run();
  EXPECT_EQ((*controller_->find("late"))->state().phase, JobPhase::kStopped);
  EXPECT_TRUE(controller_->quiet());
}

TEST_F(ControllerTest, AgentThatSaysNothingIsToldOfAndWhenItIsBack) {
  Controller::Options options{home_, {1}, Machine{2, int64_t{16} << 30, 0, ""}, 0};
  options.agent_silent = std::chrono::milliseconds(100);
  Controller watchful(loop_, clock_, *store_, *Catalogue::built_in(), options);
  ASSERT_TRUE(watchful.open(std::make_unique<NoMachines>()).ok());
  Job* job = nullptr;
  std::function<void()> look = [&] {
    const std::vector<std::string>& notices = job->state().notices;
    if (notices.size() == 2) return loop_.stop();
    if (notices.size() == 1) {
      EXPECT_TRUE(watchful.link("late.algo-1").ok());
    }
    loop_.after(std::chrono::milliseconds(5), look);
  };
  watchful.submit(request(), [&](auto submitted) {
    job = submitted->job;
    loop_.post(look);
  });
  loop_.run();
  EXPECT_THAT(job->state().notices[0], testing::StartsWith("train/algo-1: its agent has not been heard of"));
  EXPECT_EQ(job->state().notices[1], "train/algo-1: its agent is heard of again");
  EXPECT_FALSE(job->over());
}

// A job whose feed group may grow, and its agents. Instances take 0.4 of the machine's two cores.
class ElasticTest : public ControllerTest {
 protected:
  using Step = std::function<void()>;
  // Runs the steps one after the other, each with all that it leads to; `submit` steps call next()
  // themselves.
  void play(std::vector<Step> steps) {
    steps.insert(steps.begin(), {[&] { submit("late", "train=1xcpus=1,memory=1", job_, true); },
                                 [&] {
                                   for (const HostState& host : job_->state().hosts)
                                     (host.group == "train" ? train_ : data_) = host.name;
                                   tell(train_, agent::Started{1});
                                   tell(data_, agent::Started{2});
                                 }});
    size_t at = 0;
    std::function<void(int)> go = [&](int hops) {
      if (hops > 0) return loop_.post([&, hops] { go(hops - 1); });
      if (at == steps.size()) return loop_.stop();
      waits_ = false;
      steps[at++]();
      if (!waits_) go(5);
    };
    next_ = [&] { go(5); };
    loop_.post([&] { go(0); });
    loop_.run();
  }
  void submit(const std::string& name, const std::string& group, Job*& job, bool fed) {
    Json asked = request();
    Json::Array groups = {group};
    if (fed) groups.push_back("data=1..9xcpus=1,memory=1:feed");
    asked.set("cpu_scale", 0.4).set("name", name).set("groups", std::move(groups));
    waits_ = true;
    controller_->submit(asked, [&](auto submitted) {
      EXPECT_TRUE(submitted.ok()) << submitted.error().message;
      job = submitted->job;
      next_();
    });
  }
  template <typename What>
  void tell(const std::string& host, What what) {
    EXPECT_TRUE(controller_->take_events(agent_id("late", host), {{++said_[host], 0, what}}).ok());
  }
  Step wants(int64_t wanted) {
    return [=, this] { tell(train_, agent::WantedSize{"data", wanted, 1, 300, 100, 0.4, "it waits"}); };
  }
  Step drained(const std::string& host) {
    return [=, this] {
      EXPECT_EQ(job_->links[host].commands.size(), 1u);
      tell(host, agent::Stopped{0, 0, false});
    };
  }
  Step released(const std::string& host) {
    return [=, this] { tell(host, agent::Released{}); };
  }
  // Until so many instances in all were asked for, by a timer of the controller's.
  Step acquired(size_t instances) {
    return [=, this] {
      waits_ = true;
      if (machines_->acquired.size() >= instances) return next_();
      loop_.after(std::chrono::milliseconds(20), acquired(instances));
    };
  }

  Job* job_ = nullptr;
  std::string train_, data_;
  std::map<std::string, int64_t> said_;
  Step next_;
  bool waits_ = false;
};

TEST_F(ElasticTest, AddedInstancesAreToldOfAllOthersAndAreCalledByAddress) {
  play({wants(3)});
  ASSERT_EQ(machines_->acquired.size(), 4u);
  EXPECT_TRUE(machines_->assignments["late." + train_].feed.sized);
  EXPECT_FALSE(machines_->assignments["late." + data_].feed.joins);
  const agent::Assignment &third = machines_->assignments["late.algo-3"],
                          &fourth = machines_->assignments["late.algo-4"];
  EXPECT_EQ(third.group, "data");
  EXPECT_TRUE(third.feed.joins);
  EXPECT_EQ(third.feed.dispatchers, std::vector<std::string>{train_ + ":7170"});
  EXPECT_EQ(fourth.network.bridge, machines_->assignments["late." + train_].network.bridge);
  EXPECT_EQ(fourth.addresses.size(), 4u);
  std::set<std::string> addresses;
  for (const auto& [agent, assignment] : machines_->assignments) addresses.insert(assignment.network.address);
  EXPECT_EQ(addresses.size(), 4u);
  EXPECT_EQ(job_->state().resizes.size(), 1u);
}

TEST_F(ElasticTest, MoreThanThereIsIsNotHadAndToldOnce) {
  play({wants(9), wants(8)});
  EXPECT_EQ(machines_->acquired.size(), 5u);  // of 0.4 cores, on two
  EXPECT_EQ(job_->state().phase, JobPhase::kRunning);
  ASSERT_EQ(job_->state().notices.size(), 1u);
  EXPECT_EQ(job_->state().notices[0],
            "data would have 9 instances and has 4: another one needs 0.4 cores, 0 are free (held by late)");
}

TEST_F(ElasticTest, WhoIsQueuedComesFirst) {
  Job* large = nullptr;
  play({[&] { submit("large", "train=1xcpus=4,memory=1", large, false); }, wants(3)});
  EXPECT_EQ(large->state().phase, JobPhase::kQueued);
  EXPECT_EQ(machines_->acquired.size(), 2u);
  ASSERT_EQ(job_->state().notices.size(), 1u);
  EXPECT_THAT(job_->state().notices[0], testing::HasSubstr("waits behind large, which is queued"));
}

TEST_F(ElasticTest, QueuedJobGetsWhatAGroupHasTakenBeyondItsMin) {
  Job* other = nullptr;
  play({wants(4), [&] { submit("other", "train=2xcpus=1,memory=1", other, false); }, drained("algo-5"),
        released("algo-5"), [&] { EXPECT_EQ(other->state().phase, JobPhase::kQueued); }, drained("algo-4"),
        released("algo-4")});
  EXPECT_EQ(other->state().phase, JobPhase::kPreparing);
  EXPECT_EQ(job_->state().instances("data"), 2);
  EXPECT_EQ(job_->state().resizes.back().reason, "job other is queued and needs what it has");
}

TEST_F(ElasticTest, AddedInstanceThatFailsIsNotTriedAgainAtOnce) {
  play({wants(2), [&] { controller_->agent_ended("late.algo-3", "exit code 1"); }, wants(3)});
  EXPECT_EQ(machines_->acquired.size(), 3u);
  EXPECT_EQ(job_->state().sizes.at("data").failures, 1);
}

// A machine that comes back in the pause is a look, which asks for a timer that is due before the one asked
// for when the instance failed.
TEST_F(ElasticTest, GroupGrowsByItselfWhenThePauseIsOver) {
  constexpr std::chrono::milliseconds kTooLate{kAgainMs - 10'000};
  loop_.after(kTooLate, [&] {
    ADD_FAILURE() << "the timer asked for last did not come";
    loop_.stop();
  });
  play({wants(3), [&] { controller_->agent_ended("late.algo-3", "exit code 1"); }, wants(1),
        drained("algo-4"), [&] { clock_.ahead_ms = kAgainMs - 300; }, wants(2), released("algo-4"),
        acquired(5)});
  EXPECT_EQ(job_->state().instances("data"), 2);
}

TEST_F(ElasticTest, NothingGrowsWhileTheTableCannotBeWritten) {
  auto sql = [&](const char* text) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open((home_ + "/jobs.db").c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  };
  play({[&] { sql("CREATE TRIGGER full BEFORE UPDATE ON jobs BEGIN SELECT RAISE(FAIL, 'full'); END"); },
        wants(2),
        [&] { EXPECT_EQ(job_->state().sizes.at("data").asked.wanted, 2) << "it is kept in memory"; },
        [&] { EXPECT_EQ(machines_->acquired.size(), 2u); }, [&] { sql("DROP TRIGGER full"); },
        acquired(3)});  // what was kept is written after a second
  EXPECT_EQ(job_->state().instances("data"), 2);
}

TEST_F(ElasticTest, MachineThatIsGivenBackGoesToWhoWaits) {
  Job* other = nullptr;
  auto is = [&](JobPhase phase) { return [&, phase] { EXPECT_EQ(other->state().phase, phase); }; };
  play({wants(4), [&] { submit("other", "train=1xcpus=1,memory=1", other, false); }, is(JobPhase::kQueued),
        wants(3), drained("algo-5"), is(JobPhase::kQueued), released("algo-5"), is(JobPhase::kPreparing),
        wants(4)});
  EXPECT_EQ(job_->state().instances("data"), 3) << "the other job has it now";
}

TEST_F(ElasticTest, AddressesOfReleasedInstancesAreUsedAgain) {
  std::vector<Step> steps;
  for (const std::string added : {"algo-3", "algo-4", "algo-5"})
    for (Step step : {wants(2), wants(1), drained(added), released(added)}) steps.push_back(step);
  play(steps);
  for (const std::string added : {"late.algo-3", "late.algo-4", "late.algo-5"}) {
    EXPECT_THAT(machines_->assignments[added].network.address, testing::EndsWith(".4"));
    EXPECT_EQ(machines_->assignments[added].addresses.size(), 3u);
  }
}

}  // namespace
}  // namespace stoker::control
