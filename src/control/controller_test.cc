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
  std::vector<std::string> acquired;
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

TEST_F(ControllerTest, SubmittedJobGetsItsMachine) {
  controller_->submit(request(), [&](auto submitted) {
    EXPECT_TRUE(submitted.ok()) << submitted.error().message;
    loop_.post([&] { loop_.stop(); });
  });
  loop_.run();
  EXPECT_EQ(machines_->acquired, std::vector<std::string>{"late.algo-1"});
  EXPECT_FALSE(controller_->quiet());
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
