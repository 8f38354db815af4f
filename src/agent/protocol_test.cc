// SPDX-License-Identifier: Apache-2.0
#include "agent/protocol.h"

#include <gtest/gtest.h>

namespace stoker::agent {
namespace {

Assignment example() {
  Assignment a;
  a.job = "photos-1";
  a.host = "algo-1";
  a.group = "train";
  a.instance_type = "ml.p3.2xlarge";
  a.vcpus = 8;
  a.cores = 0.32;
  a.memory_bytes = int64_t{1} << 30;
  a.addresses = {{"algo-1", "10.60.1.2"}, {"algo-2", "10.60.1.3"}};
  a.groups = {{"train", "ml.p3.2xlarge", Role::kNone, {"algo-1"}, {}},
              {"data", "ml.c5.9xlarge", Role::kFeed, {"algo-2"}, {"train"}}};
  a.network = {"sk0123456789", "10.60.1.2", "10.60.1.1", 24, 1500, false};
  a.job_dir = "/home/u/.local/share/stoker/jobs/photos-1";
  a.stoker_home = "/home/u/.local/share/stoker";
  a.code_dir = a.job_dir + "/code";
  a.entry = {"train.py", {}, {"--epochs", "2"}};
  a.hyperparameters = {{"lr", "0.1"}};
  a.environment = {{"TOKEN", "x=y"}};
  a.channels = {{"photos", "/data/photos", true}};
  a.python = "/usr/bin/python3";
  a.feed = {{"algo-1:7170"}, a.job_dir + "/feed-token", true, true};
  a.uid = 1000;
  a.gid = 1000;
  return a;
}

TEST(Protocol, AssignmentComesBackFromItsJson) {
  auto text = example().to_json().dump();
  auto back = Assignment::from_json(*Json::parse(text));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, example());
}

TEST(Protocol, AssignmentThatLeavesItsFoldersIsRefused) {
  for (auto [field, value] : std::vector<std::pair<std::string, Json>>{{"job", "../x"},
                                                                       {"host", ""},
                                                                       {"job_dir", "relative"},
                                                                       {"requirements_file", "../r.txt"},
                                                                       {"cores", 0.0},
                                                                       {"uid", -1},
                                                                       {"group", "nobody"}}) {
    Json json = example().to_json();
    json.set(field, value);
    EXPECT_FALSE(Assignment::from_json(json).ok()) << field;
  }
  Json json = example().to_json();
  json.set("entry", Json(Json::Object{{"script", "../../etc/x"}}));
  EXPECT_FALSE(Assignment::from_json(json).ok());
}

TEST(Protocol, EventsAndCommandsComeBack) {
  for (auto what : {decltype(AgentEvent::what){Preparing{"limits"}},
                    {Started{77}},
                    {Exited{137, 9, true, "out of memory", "text"}},
                    {Stopped{143, 15, false}},
                    {Failed{"network", "no bridge"}},
                    {Notice{"no egress"}},
                    {WantedSize{"data", 3, 1, 250.5, 100, 0.25, "the loop waits"}},
                    {Released{}}}) {
    AgentEvent event{3, 17, what};
    auto back = AgentEvent::from_json(*Json::parse(event.to_json().dump()));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, event);
  }
  AgentCommand command{4, Stop{2.5, "user"}};
  EXPECT_EQ(*AgentCommand::from_json(command.to_json()), command);
}

}  // namespace
}  // namespace stoker::agent
