// SPDX-License-Identifier: Apache-2.0
// The published rows: a heterogeneous cluster against the GPU machine alone, TensorFlow and PyTorch examples.
#include "control/comparison.h"

#include <gtest/gtest.h>

namespace stoker::control {
namespace {

TEST(Comparison, GivesThePublishedTensorFlowRow) {
  EXPECT_NEAR(cost_per_100_steps(37.688, 0.192), 0.201, 0.0005);
  ComparisonRow row = against(37.688, 0.192, 45.032, 0.086);
  EXPECT_NEAR(row.cost_per_100_steps, 0.108, 0.0005);
  EXPECT_NEAR(row.speedup, 2.2, 0.05);
  EXPECT_NEAR(*row.price_performance, 0.46, 0.005);
}

TEST(Comparison, GivesThePublishedPyTorchRow) {
  EXPECT_NEAR(cost_per_100_steps(3.825, 1.193), 0.127, 0.0005);
  ComparisonRow row = against(3.825, 1.193, 5.661, 0.184);
  EXPECT_NEAR(row.cost_per_100_steps, 0.029, 0.0005);
  EXPECT_NEAR(row.speedup, 6.5, 0.05);
  EXPECT_NEAR(*row.price_performance, 0.77, 0.005);
}

JobFigures job(const std::string& name, double scale) {
  JobFigures figures;
  figures.job = name;
  figures.cpu_scale = scale;
  figures.steps = 100;
  figures.window_s = 200;
  figures.wait_s = 150;
  figures.samples_per_step = 16;
  figures.data_cpu_s_per_sample = 0.03;
  figures.data_cpu_covers = "feed workers and their children";
  figures.groups = {{"train", "ml.p3.2xlarge", "", 1, 8, 1, 3.825, 0.32, 32, {}},
                    {"data", "ml.c5.9xlarge", "feed", 1, 36, 0, 1.836, 1.44, 48, {}}};
  return figures;
}

TEST(Comparison, RefusesJobsOfDifferentScale) {
  auto rows = compare({job("a", 0.04), job("b", 0.05)});
  ASSERT_FALSE(rows.ok());
  EXPECT_NE(rows.error().message.find("--cpu-scale 0.04"), std::string::npos);
}

TEST(Comparison, RefusesJobsWithoutSteps) {
  JobFigures empty = job("b", 0.04);
  empty.steps = 0;
  EXPECT_FALSE(compare({job("a", 0.04), empty}).ok());
}

TEST(Comparison, APriceThatIsNotKnownIsNull) {
  JobFigures here = job("here", 0.04);
  here.groups[1].price_per_hour = 0;
  auto rows = compare({job("a", 0.04), here});
  ASSERT_TRUE(rows.ok());
  Json jobs = to_json(*rows)["jobs"];
  EXPECT_NEAR(jobs.as_array()[0]["price_performance"].as_double(), 0, 1e-9);
  for (const char* name : {"price_per_hour", "cost_per_100_steps", "price_performance"})
    EXPECT_TRUE(jobs.as_array()[1][name].is_null()) << name;
  EXPECT_TRUE(jobs.as_array()[1]["groups"].as_array()[1]["price_per_hour"].is_null());
  EXPECT_NEAR(jobs.as_array()[1]["speedup"].as_double(), 1, 1e-9);
}

TEST(Comparison, AJobWithoutAcceleratorsHasNoRealOnes) {
  JobFigures real = job("real", 0.04), emulated = real, none = real;
  emulated.emulated_accelerators = true;
  for (GroupFigures& group : none.groups) group.accelerators = 0;
  auto rows = compare({real, emulated, none});
  ASSERT_TRUE(rows.ok());
  Json jobs = to_json(*rows)["jobs"];
  EXPECT_EQ(jobs.as_array()[0]["accelerator"].as_string(), "real");
  EXPECT_EQ(jobs.as_array()[1]["accelerator"].as_string(), "emulated");
  EXPECT_TRUE(jobs.as_array()[2]["accelerator"].is_null());
}

TEST(Comparison, BoundIsTheGroupThatNeedsMost) {
  JobFigures figures = job("a", 0.04);
  Bound bound = cpu_bound(figures);  // train: 0.32 s CPU a step over 0.32 cores; data: 0.48 over 1.44
  EXPECT_EQ(bound.group, "train");
  EXPECT_NEAR(bound.step_s, 1.0, 1e-9);
  figures.groups[0].cpu_s = 3.2;
  figures.spare_share = 0.25;
  EXPECT_NEAR(cpu_bound(figures).step_s, 0.36 / 1.44, 1e-9);
  figures.spare_share = 0;
  bound = cpu_bound(figures);
  EXPECT_EQ(bound.group, "data");
  EXPECT_NEAR(bound.step_s, 16 * 0.03 / 1.44, 1e-9);
}

TEST(Comparison, AShortRunIsNotedAndABoundOfManyStepsIsNone) {
  JobFigures brief = job("brief", 0.04);
  brief.steps = 14;
  brief.window_s = 2;
  brief.wait_s = 1;  // 16.3 s of CPU a step of 0.14 s
  auto rows = compare({job("a", 0.04), brief});
  ASSERT_TRUE(rows.ok());
  const Json jobs = to_json(*rows)["jobs"];
  EXPECT_TRUE(jobs.as_array()[0]["notices"].as_array().empty());
  EXPECT_FALSE(jobs.as_array()[0]["share_of_bound"].is_null());
  ASSERT_EQ(jobs.as_array()[1]["notices"].as_array().size(), 1u);
  const std::string notice = jobs.as_array()[1]["notices"].as_array()[0].as_string();
  EXPECT_NE(notice.find("brief: only 14 steps in 2.0 s were measured"), std::string::npos) << notice;
  EXPECT_TRUE(jobs.as_array()[1]["share_of_bound"].is_null());
  EXPECT_TRUE(jobs.as_array()[1]["bound_ms"].is_null());
}

TEST(Comparison, JsonShowsCpuAsSumOverVcpus) {
  auto rows = compare({job("a", 0.04)});
  ASSERT_TRUE(rows.ok());
  Json out = to_json(*rows)["jobs"].as_array()[0];
  EXPECT_NEAR(out["groups"].as_array()[0]["cpu_percent"].as_double(), 32.0 / 200 / 0.04 * 100, 1e-6);
  EXPECT_NEAR(out["wait_share"].as_double(), 0.75, 1e-9);
}

TEST(Comparison, CpuOfAGroupIsThatOfAllItsInstances) {
  JobFigures two = job("a", 0.04);
  two.groups[0].count = 2;
  two.groups[0].vcpus = 8;
  Json group = to_json(*compare({two}))["jobs"].as_array()[0]["groups"].as_array()[0];
  EXPECT_NEAR(group["cpu_percent"].as_double(), 32.0 / 200 / two.groups[0].cores * 800, 1e-6);
  EXPECT_EQ(group["cpu_percent_max"].as_double(), 1600);
}

}  // namespace
}  // namespace stoker::control
