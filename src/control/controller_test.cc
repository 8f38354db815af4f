// SPDX-License-Identifier: Apache-2.0
#include "control/controller.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "base/test_folder.h"

namespace stoker::control {
namespace {

class NoMachines : public Provider {
 public:
  Status acquire(const std::string& agent, const agent::Assignment&) override {
    acquired.push_back(agent);
    return ok();
  }
  void release(const std::string&) override {}
  void kill(const std::string& agent) override { killed(agent); }
  std::vector<std::string> list() const override { return acquired; }
  bool owes(const std::string& agent) const override { return agent == owed; }
  std::vector<std::string> acquired;
  std::string owed;
  std::function<void(const std::string&)> killed = [](const std::string&) {};
};

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() {
    std::filesystem::create_directories(home_ + "/code");
    std::ofstream(home_ + "/code/train.py") << "print(1)";
    store_ = *Store::open(home_ + "/jobs.db");
    controller_ = std::make_unique<Controller>(
        loop_, system_clock(), *store_, *Catalogue::built_in(),
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
  auto again = [&](auto submitted) {
    EXPECT_TRUE(submitted.ok()) << "the name is free";
    loop_.stop();
  };
  auto removed = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(std::filesystem::is_empty(home_ + "/jobs"));
    EXPECT_TRUE(store_->jobs()->empty());
    EXPECT_EQ(job->name(), "late") << "whoever still reads it may";
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
  };
  controller_->submit(request(), [&](auto submitted) {
    job = submitted->job;
    loop_.post(started);
  });
  loop_.run();
  EXPECT_EQ(controller_->jobs().size(), 1u);
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
    EXPECT_FALSE(controller_->quiet()) << "its folder is being removed";
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

}  // namespace
}  // namespace stoker::control
