// SPDX-License-Identifier: Apache-2.0
// What the agent decides without touching anything: quotas, addresses, files, variables, the tree.
#include <gtest/gtest.h>

#include "agent/cgroup.h"
#include "agent/network.h"
#include "agent/sagemaker.h"
#include "agent/sandbox/layout.h"

namespace stoker::agent {
namespace {

TEST(Decisions, QuotaHasShortPeriodsUntilTheKernelsLeastQuota) {
  EXPECT_EQ(cpu_quota(2).quota_us, 40'000);
  EXPECT_EQ(cpu_quota(0.32).quota_us, 6'400);
  EXPECT_EQ(cpu_quota(0.32).period_us, 20'000);
  EXPECT_EQ(cpu_quota(0.01).quota_us, 1'000);
  EXPECT_EQ(cpu_quota(0.01).period_us, 100'000);
}

TEST(Decisions, SubnetOfAnAddress) {
  EXPECT_EQ(subnet_of("10.70.1.9", 24).value(), "10.70.1.0/24");
  EXPECT_EQ(subnet_of("10.70.1.9", 23).value(), "10.70.0.0/23");
  EXPECT_EQ(netmask(23), "255.255.254.0");
  EXPECT_FALSE(subnet_of("10.70.1", 24).ok());
}

Assignment mixed() {
  Assignment a;
  a.job = "photos";
  a.host = "algo-2";
  a.group = "dnn_group";
  a.instance_type = "ml.m4.xlarge";
  a.vcpus = 4;
  a.cores = 2.6;
  a.addresses = {{"algo-1", "10.69.1.2"}, {"algo-2", "10.69.1.3"}, {"algo-10", "10.69.1.4"}};
  a.groups = {{"data_group", "ml.c5.xlarge", Role::kFeed, {"algo-1", "algo-10"}, {"dnn_group"}},
              {"dnn_group", "ml.m4.xlarge", Role::kNone, {"algo-2"}, {}}};
  a.hyperparameters = {{"lr", "0.1"}, {"batch-size", "64"}, {"name", "resnet"}};
  a.channels = {{"photos", "/data", true}};
  a.python = "/usr/bin/python3";
  a.entry = {"train.py", {}, {"--x"}};
  a.feed = {{"algo-2:7170"}, "/t"};
  return a;
}

TEST(Decisions, ResourceConfigIsSageMakersToTheByte) {
  EXPECT_EQ(
      resource_file(mixed()),
      R"({"current_host":"algo-2","current_instance_type":"ml.m4.xlarge","current_group_name":"dnn_group",)"
      R"("hosts":["algo-1","algo-10","algo-2"],"instance_groups":[{"instance_group_name":"data_group",)"
      R"("instance_type":"ml.c5.xlarge","hosts":["algo-1","algo-10"]},{"instance_group_name":"dnn_group",)"
      R"("instance_type":"ml.m4.xlarge","hosts":["algo-2"]}],"network_interface_name":"eth0"})");
  EXPECT_EQ(hyperparameters_file(mixed()), R"({"batch-size":"64","lr":"0.1","name":"resnet"})");
  EXPECT_EQ(
      input_data_file(mixed()),
      R"({"photos":{"RecordWrapperType":"None","S3DistributionType":"FullyReplicated","TrainingInputMode":"File"}})");
}

TEST(Decisions, ANumberThatIsNoneIsText) {
  Assignment a = mixed();
  a.hyperparameters = {{"a", "1e999"}};
  EXPECT_EQ(instance_environment(a).at("SM_HP_A"), "1e999");
  EXPECT_EQ(instance_environment(a).at("SM_HPS"), R"({"a":"1e999"})");
}

TEST(Decisions, VariablesAreTheToolkits) {
  Assignment a = mixed();
  a.environment = {{"OMP_NUM_THREADS", "9"}, {"MINE", "1"}};
  auto v = instance_environment(a);
  EXPECT_EQ(v["SM_HOSTS"], R"(["algo-1","algo-10","algo-2"])");
  EXPECT_EQ(v["SM_HPS"], R"({"batch-size":64,"lr":0.1,"name":"resnet"})");
  EXPECT_EQ(v["SM_HP_BATCH-SIZE"], "64");
  EXPECT_EQ(v["SM_HP_NAME"], "resnet");
  EXPECT_EQ(v["SM_CHANNEL_PHOTOS"], "/opt/ml/input/data/photos");
  EXPECT_EQ(v["SM_CURRENT_INSTANCE_GROUP"], "dnn_group");
  EXPECT_EQ(Json::parse(v["SM_INSTANCE_GROUPS_DICT"]).value()["data_group"]["instance_type"].as_string(),
            "ml.c5.xlarge");
  EXPECT_EQ(v["SM_NUM_GPUS"], "0");
  EXPECT_EQ(v["SM_IS_HETERO"], "true");
  EXPECT_EQ(v["TRAINING_JOB_NAME"], "photos");
  EXPECT_EQ(v["OMP_NUM_THREADS"], "9") << "the job's own variables win";
  EXPECT_EQ(v["MKL_NUM_THREADS"], "3");
  EXPECT_EQ(v["STOKER_FEED"], "algo-2:7170");
  EXPECT_EQ(v["STOKER_CORES"], Json(a.cores).dump());
  EXPECT_TRUE(Json::parse(v["SM_TRAINING_ENV"]).ok());
}

std::string find_step(const std::vector<MountStep>& steps, const std::string& target) {
  std::string found;
  for (size_t i = 0; i < steps.size(); i++)
    if (steps[i].target == target) found += std::to_string(static_cast<int>(steps[i].kind)) + " ";
  return found;
}

TEST(Decisions, TreeKeepsOptWhereTheMachineHasNoOptMl) {
  LayoutInput input;
  input.code_dir = "/srv/code";
  input.memory_bytes = 1 << 20;
  HostView host;
  host.opt = {"conda"};
  auto steps = sandbox_layout(input, host);
  EXPECT_EQ(find_step(steps, "opt"), "1 ");
  EXPECT_EQ(find_step(steps, "opt/conda"), "2 0 ");
  host.opt_ml = true;
  steps = sandbox_layout(input, host);
  EXPECT_EQ(find_step(steps, "opt"), "");
  EXPECT_EQ(find_step(steps, "opt/ml"), "1 ");
}

TEST(Decisions, ProgramInsideAnEnvironmentThatIsShownNeedsNoShowing) {
  LayoutInput input;
  input.code_dir = "/srv/code";
  input.readable = {"/tmp/checkout/.venv", "/tmp/checkout/.venv/lib"};
  input.readable_files = {"/tmp/checkout/.venv/bin/stoker"};
  auto steps = sandbox_layout(input, {});
  EXPECT_EQ(find_step(steps, "tmp/checkout/.venv"), "2 0 ");
  EXPECT_EQ(find_step(steps, "tmp/checkout/.venv/lib"), "");
  EXPECT_EQ(find_step(steps, "tmp/checkout/.venv/bin/stoker"), "");
}

TEST(Decisions, TreeShowsWhatIsReadableInsideHiddenFolders) {
  LayoutInput input;
  input.code_dir = "/srv/a,b";
  input.hidden = "/tmp/home";
  input.readable = {"/tmp/home/cache/x", "/usr/lib/python3"};
  auto steps = sandbox_layout(input, {});
  EXPECT_EQ(find_step(steps, "tmp/home"), "2 1 ");
  EXPECT_EQ(find_step(steps, "tmp/home/cache"), "2 ");
  EXPECT_EQ(find_step(steps, "tmp/home/cache/x"), "2 0 ");
  EXPECT_EQ(find_step(steps, "usr/lib/python3"), "") << "shows anyway";
  EXPECT_EQ(find_step(steps, "opt/ml/code"), "2 0 ") << "overlay's options cannot say that path";
}

TEST(Decisions, WhatIsHiddenIsHiddenInInputsToo) {
  LayoutInput input;
  input.code_dir = "/srv/code";
  input.hidden = "/home/u/.local/share/stoker";
  input.bounds = {{"/home/u", "/opt/ml/input/data/a", true},
                  {"/", "/opt/ml/input/data/all", true},
                  {"/home/u/.local/share/stoker/jobs/one/model", "/opt/ml/input/data/model", true},
                  {"/home/u2", "/opt/ml/input/data/b", true}};
  auto steps = sandbox_layout(input, {});
  const std::string tmpfs = find_step(steps, "home/u/.local/share/stoker");
  EXPECT_EQ(find_step(steps, "opt/ml/input/data/a/.local/share/stoker"), tmpfs);
  EXPECT_EQ(find_step(steps, "opt/ml/input/data/all/home/u/.local/share/stoker"), tmpfs);
  for (const MountStep& step : steps)
    EXPECT_FALSE(step.kind == MountStep::Kind::kTmpfs &&
                 (step.target.starts_with("opt/ml/input/data/model") ||
                  step.target.starts_with("opt/ml/input/data/b")));
}

}  // namespace
}  // namespace stoker::agent
