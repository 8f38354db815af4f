// SPDX-License-Identifier: Apache-2.0
#include "control/advice.h"

#include <gtest/gtest.h>

namespace stoker::control {
namespace {

const std::vector<Offer> kOffers = {
    {"ml.p3.2xlarge", "p3", 8, 1, 3.825},  {"ml.p3.8xlarge", "p3", 32, 4, 14.688},
    {"ml.g5.xlarge", "g5", 4, 1, 1.408},   {"ml.g5.4xlarge", "g5", 16, 1, 2.03},
    {"ml.c5.9xlarge", "c5", 36, 0, 1.836}, {"ml.c5.2xlarge", "c5", 8, 0, 0.408},
};

// The published PyTorch example in shape: 16 samples a step of 30 ms CPU each, 48 ms of training.
JobFigures starving(const std::string& type, double vcpus, double price) {
  JobFigures job;
  job.job = "alone";
  job.emulated_accelerators = true;
  job.groups = {{"train", type, "", 1, vcpus, 1, price, vcpus, 0, {}}};
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = 0.5;
  job.samples_per_step = 16;
  job.trainer_cpu_s_per_step = job.undisturbed_trainer_cpu_s_per_step = 0.4;
  job.steps = 100;
  job.window_s = 100 * (16 * 0.5 + 0.4) / vcpus;
  job.wait_s = job.window_s * 0.9;
  job.groups[0].cpu_s = job.window_s * vcpus;
  return job;
}

TEST(Advice, ShowsHelpersForTheStarvingTrainer) {
  auto advice = advise(starving("ml.p3.2xlarge", 8, 3.825), kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->data_binds);
  EXPECT_NEAR(advice->own_step_s, 0.05, 1e-9);
  EXPECT_NEAR(advice->vcpus_per_accelerator_needed, 8.4 / 0.05, 1e-6);
  EXPECT_NE(advice->summary.find("no machine in the family"), std::string::npos) << advice->summary;
  bool found = false;
  for (const Candidate& c : advice->candidates)
    if (c.type == "ml.c5.9xlarge" && c.count == 1) {
      found = true;
      const double step_s = (8 + 0.4) / (36 + 0.9 * 8);  // with what the trainer's own cores leave
      EXPECT_NEAR(c.step_s, step_s, 1e-9);
      EXPECT_NEAR(c.speedup, 1.05 / step_s, 1e-9);
      EXPECT_NEAR(c.price_per_hour, 5.661, 1e-9);
      EXPECT_EQ(c.binds, "data");
    }
  EXPECT_TRUE(found);
  for (size_t i = 1; i < advice->candidates.size(); ++i)
    EXPECT_GE(advice->candidates[i - 1].price_performance, advice->candidates[i].price_performance);
}

TEST(Advice, SaysThatAPriceIsNotKnown) {
  auto advice = advise(starving("here", 8, 0), kOffers);
  ASSERT_TRUE(advice.ok());
  ASSERT_FALSE(advice->candidates.empty());
  for (const Candidate& c : advice->candidates) EXPECT_FALSE(c.price_performance);
  for (size_t i = 1; i < advice->candidates.size(); ++i)
    EXPECT_GE(advice->candidates[i - 1].speedup, advice->candidates[i].speedup);
  EXPECT_NE(advice->summary.find("whether it is cheaper per step is not known, since here has no price"),
            std::string::npos)
      << advice->summary;
  EXPECT_TRUE(to_json(*advice)["candidates"].as_array()[0]["price_per_hour"].is_null());
}

TEST(Advice, ShowsTheBiggerSibling) {
  auto advice = advise(starving("ml.g5.xlarge", 4, 1.408), kOffers);
  ASSERT_TRUE(advice.ok());
  bool sibling = false;
  for (const Candidate& c : advice->candidates)
    sibling |= c.kind == Candidate::Kind::kSibling && c.type == "ml.g5.4xlarge";
  EXPECT_TRUE(sibling);
}

// Helpers that use a tenth of their CPUs, and a wire that is waited for nine tenths of the time.
JobFigures on_slow_wire() {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.fed = true;
  job.groups[0].cpu_s = job.window_s;
  job.groups.push_back({"data", "ml.c5.9xlarge", "feed", 1, 36, 0, 1.836, 36, 3.6 * job.window_s, {}});
  job.starved_s = job.window_s * 0.9;
  job.received_bytes = 1e6 * job.starved_s;
  return job;
}

TEST(Advice, NamesTheLinkWhereTheHelpersHaveCpuLeft) {
  auto advice = advise(on_slow_wire(), kOffers);
  ASSERT_TRUE(advice.ok());
  ASSERT_TRUE(advice->link_bytes_per_s);
  EXPECT_NEAR(*advice->link_bytes_per_s, 1e6, 1);
  EXPECT_EQ(to_json(*advice)["binds"].as_string(), "link");
  EXPECT_NE(advice->summary.find("The link binds: samples come over it at 1 MB/s"), std::string::npos)
      << advice->summary;
  EXPECT_NE(advice->summary.find("More of them would not help"), std::string::npos) << advice->summary;
  for (const Candidate& c : advice->candidates) EXPECT_EQ(c.kind, Candidate::Kind::kSibling);
}

TEST(Advice, DoesNotBlameTheLinkForHelpersThatAreShortOfCpu) {
  JobFigures job = on_slow_wire();
  job.groups[1].cpu_s = 36 * job.window_s;
  EXPECT_EQ(to_json(*advise(job, kOffers))["binds"].as_string(), "data");
  job = on_slow_wire();
  job.starved_s = job.window_s * 0.1;
  EXPECT_EQ(to_json(*advise(job, kOffers))["binds"].as_string(), "data");
}

TEST(Advice, DoesNotBlameALinkThatCarriesWhatTheTrainerNeeds) {
  JobFigures job = on_slow_wire();  // 1050 ms a step
  job.starved_s = job.window_s * 0.6;
  job.wait_s = job.window_s * 0.3;
  EXPECT_EQ(to_json(*advise(job, kOffers))["binds"].as_string(), "data");
}

TEST(Advice, DoesNotBlameALinkThatCarriesMoreThanTheHelpersCanMake) {
  JobFigures job = on_slow_wire();
  job.starved_s = job.window_s * 0.6;
  EXPECT_EQ(to_json(*advise(job, kOffers))["binds"].as_string(), "link");
  job.groups[1].cores = 12;  // 8 s of CPU a step
  job.groups[1].cpu_s = 12 * 0.7 * job.window_s;
  EXPECT_EQ(to_json(*advise(job, kOffers))["binds"].as_string(), "data");
}

TEST(Advice, WritesRatesWithoutPowersOfTen) {
  JobFigures job = on_slow_wire();
  job.received_bytes *= 1500;
  EXPECT_NE(advise(job, kOffers)->summary.find("over it at 1500 MB/s"), std::string::npos)
      << advise(job, kOffers)->summary;
}

TEST(Advice, CountsOnSpareCoresWhereTheyDidHelp) {
  JobFigures job = on_slow_wire();
  job.starved_s = 0;
  auto two_of = [](const Advice& advice) {
    for (const Candidate& c : advice.candidates)
      if (c.type == "ml.c5.9xlarge" && c.count == 2) return c.step_s;
    return 0.0;
  };
  EXPECT_NEAR(two_of(*advise(job, kOffers)), 8.0 / 72, 1e-9);
  job.spare_share = 0.1;
  EXPECT_NEAR(two_of(*advise(job, kOffers)), 8.4 / (72 + 7.2), 1e-9);
  job.undisturbed_trainer_cpu_s_per_step = 0.8;  // leaves next to nothing: not slower than by helpers alone
  EXPECT_NEAR(two_of(*advise(job, kOffers)), std::min(8.0 / 72, 8.8 / (72 + 7.2)), 1e-9);
}

TEST(Advice, SimulatorsAreNoFeedWorkers) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.groups.push_back({"sims", "ml.c5.9xlarge", "feed", 1, 36, 0, 1.836, 36, 0, {}, true});
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->feed.has_value());
  EXPECT_EQ(advice->summary.find("sims"), std::string::npos) << advice->summary;
  EXPECT_EQ(cpu_bound(job).group, "train");
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = 0;
  EXPECT_NE(advise(job, kOffers).error().message.find("num_workers > 0"), std::string::npos);
}

TEST(Advice, SaysWhenNothingWouldHelp) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.wait_s = 0.01 * job.window_s;
  job.fed = true;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->data_binds);
  EXPECT_TRUE(advice->candidates.empty());
  EXPECT_NE(advice->summary.find("would not help"), std::string::npos);
}

// The same training, fed by a c5.9xlarge: 100 ms a step, of which the trainer needs 50 for itself.
JobFigures fed_by(const std::string& type, double vcpus, double price) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.fed = true;
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = 0.05;
  job.groups[0].cpu_s = 100 * 0.4;
  job.groups.push_back({"helpers", type, "feed", 1, vcpus, 0, price, vcpus, 100 * 0.8, {}});
  job.window_s = 100 * 0.1;
  job.wait_s = 100 * 0.05;
  return job;
}

TEST(Advice, OfAFedJobSaysWhatItsHelpersDoAndWhatToTypeInstead) {
  auto advice = advise(fed_by("ml.c5.2xlarge", 8, 0.408), kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->data_binds);
  ASSERT_TRUE(advice->feed);
  EXPECT_NEAR(advice->feed->vcpus_used, 8, 1e-9);
  EXPECT_NEAR(advice->feed->vcpus_needed, 16, 1e-9);
  EXPECT_NE(advice->summary.find("Its helpers (helpers=1xml.c5.2xlarge) use 8.0 of their 8 vCPUs at 50.0 ms "
                                 "CPU a sample; 16.0 would feed it. They are 0.408 of the 4.233 $/h."),
            std::string::npos)
      << advice->summary;
  EXPECT_NE(advice->summary.find("2 ml.c5.2xlarge in the helpers' place (--group "
                                 "helpers=2xml.c5.2xlarge:feed), 2.0x faster"),
            std::string::npos)
      << advice->summary;
  EXPECT_EQ(advice->summary.find("there are 8"), std::string::npos) << advice->summary;
  EXPECT_TRUE(advice->notices.empty());
}

TEST(Advice, DoesNotOfferTheHelpersThatThereAre) {
  JobFigures job = fed_by("ml.c5.2xlarge", 8, 0.408);
  job.undisturbed_data_cpu_s_per_sample *= 0.8;  // it was disturbed: the same ones could be faster
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  ASSERT_FALSE(advice->candidates.empty());
  for (const Candidate& c : advice->candidates) EXPECT_FALSE(c.type == "ml.c5.2xlarge" && c.count == 1);
}

TEST(Advice, OfAJobThatIsFedAmplyNamesCheaperHelpers) {
  JobFigures job = fed_by("ml.c5.9xlarge", 36, 1.836);
  job.window_s = 100 * 0.05 * 2;
  job.steps = 200;
  job.wait_s = 0;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->data_binds);
  EXPECT_NE(advice->summary.find("2 ml.c5.2xlarge in their place (--group helpers=2xml.c5.2xlarge:feed)"),
            std::string::npos)
      << advice->summary;
  for (const Candidate& c : advice->candidates) EXPECT_GT(c.price_performance, 0.05);
}

TEST(Advice, DoesNotBelieveCpuTimeThatTheQuotaCouldNotGive) {
  JobFigures job = fed_by("ml.c5.2xlarge", 8, 0.408);
  job.steps = 30;
  job.window_s = 30 * 0.007;
  job.wait_s = job.window_s / 3;
  job.undisturbed_trainer_cpu_s_per_step = 0.128 * 8;  // imports
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_LE(advice->own_step_s, advice->step_s);
  EXPECT_TRUE(advice->data_binds);
  ASSERT_EQ(advice->notices.size(), 1u);
  EXPECT_NE(advice->notices[0].find("only 30 steps in 0.2 s were measured"), std::string::npos);
}

TEST(Advice, OfATrainerThatFillsItsQuotaKeepsWhatItsGroupUsed) {
  JobFigures job = fed_by("ml.c5.9xlarge", 36, 1.836);
  job.wait_s = 0.96 * job.window_s;
  job.groups[0].cpu_s = 0.9 * 8 * job.window_s;
  job.undisturbed_trainer_cpu_s_per_step = 1.07 * 8 * job.step_s();  // with what many short epochs begin with
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_NEAR(advice->own_step_s, 0.9 * advice->step_s, 1e-9);
  for (const Candidate& c : advice->candidates) EXPECT_LT(c.speedup, 1.12);
}

// A script that only draws batches, of 16 samples of `sample_s` each.
JobFigures without_a_step(double step_s, double sample_s) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.emulated_accelerators = false;
  job.steps = 20000;
  job.window_s = 20000 * step_s;
  job.wait_s = 0.99 * job.window_s;
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = sample_s;
  job.trainer_cpu_s_per_step = job.undisturbed_trainer_cpu_s_per_step = 0.00001;
  return job;
}

TEST(Advice, ProposesNoMachinesForStepsThatHandingOverFills) {
  auto advice = advise(without_a_step(0.0009, 0.0004), kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->data_binds);
  EXPECT_TRUE(advice->candidates.empty());
  EXPECT_NE(advice->summary.find("a step of 0.90 ms, but handing a batch over costs of that order"),
            std::string::npos)
      << advice->summary;
  EXPECT_LE(advice->vcpus_per_accelerator_needed, 8);
}

TEST(Advice, PredictsNoStepThatHandingOverWouldNotAllow) {
  auto advice = advise(without_a_step(0.004, 0.002), kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->data_binds);
  ASSERT_FALSE(advice->candidates.empty());
  for (const Candidate& c : advice->candidates) {
    EXPECT_GE(c.step_s, 0.001);
    EXPECT_LE(c.count, 4) << c.type;
  }
  ASSERT_EQ(advice->notices.size(), 1u);
  EXPECT_NE(advice->notices[0].find("without waiting a step takes 0.04 ms"), std::string::npos)
      << advice->notices[0];
}

TEST(Advice, SaysThatTheTrainersOwnProcessFillsItsQuotaThoughItWaits) {
  JobFigures job = fed_by("ml.c5.9xlarge", 36, 1.836);
  job.undisturbed_trainer_cpu_s_per_step = 0.8;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->data_binds);
  EXPECT_NE(
      advice->summary.find("fills 100 of the 100 ms: more CPUs for data would not help, more of its own"),
      std::string::npos)
      << advice->summary;
}

TEST(Advice, SeesThatATrainerOnTheSamplesOwnCpusIsSlowedEvenIfItHardlyWaits) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.wait_s = 0.01 * job.window_s;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->data_binds);
  EXPECT_FALSE(advice->candidates.empty());
}

TEST(Advice, TakesTimeThatIsNeitherWaitingNorCpuForAFloor) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.wait_s = 0.01 * job.window_s;
  job.groups[0].cpu_s *= 0.8;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->data_binds) << advice->summary;
  EXPECT_TRUE(advice->candidates.empty());
  job.wait_s = 0.5 * job.window_s;
  advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  for (const Candidate& c : advice->candidates) EXPECT_GE(c.step_s, 0.5 * job.step_s());
}

// A step that sleeps 0.1 s and computes 1 ms, while two workers fill all cores.
JobFigures sleeping() {
  JobFigures job = starving("here", 0.32, 3.825);
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = 0.004;
  job.trainer_cpu_s_per_step = job.undisturbed_trainer_cpu_s_per_step = 0.0011;
  job.window_s = 100 * 0.214;
  job.wait_s = 100 * 0.105;
  job.groups[0].cpu_s = job.window_s * 0.32;
  job.blocked_s = 100 * 0.1001;
  job.loop_cpu_s = 100 * 0.0009;
  job.hands = 2;
  return job;
}

TEST(Advice, SleepingIsAFloorAlsoWhereWorkersFillTheCores) {
  auto advice = advise(sleeping(), kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_TRUE(advice->data_binds);
  EXPECT_NEAR(advice->own_step_s, 0.1001 - 0.0002 * 3 / 0.32 + 0.0011 / 0.32, 1e-9);
  ASSERT_FALSE(advice->candidates.empty());
  for (const Candidate& c : advice->candidates) EXPECT_GE(c.step_s, 0.1);
}

TEST(Advice, WaitingForThreadsOfItsOwnThatComputeIsNone) {
  JobFigures job = sleeping();
  job.trainer_cpu_s_per_step = job.undisturbed_trainer_cpu_s_per_step = 0.02;  // most of it by other threads
  EXPECT_NEAR(advise(job, kOffers)->own_step_s, 0.02 / 0.32, 1e-9);
}

TEST(Advice, WhatTheLoaderDoesMeanwhileIsNotWaitedFor) {
  JobFigures job = sleeping();
  job.client_cpu_s = 100 * 0.0002;  // all that the loop's own thread did not do
  EXPECT_NEAR(advise(job, kOffers)->own_step_s, 0.1001 + 0.0011 / 0.32, 1e-9);
}

TEST(Advice, TheOwnStepIsNoLongerThanWhatPassedWithoutWaiting) {
  JobFigures job = sleeping();
  job.wait_s = 100 * 0.16;
  EXPECT_NEAR(advise(job, kOffers)->own_step_s, 0.054, 1e-9);
}

TEST(Advice, PredictsNothingWhereTheLoopMakesItsSamplesItself) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.inline_data = true;
  auto advice = advise(job, kOffers);
  ASSERT_FALSE(advice.ok());
  EXPECT_NE(advice.error().message.find("use num_workers > 0"), std::string::npos) << advice.error().message;
}

TEST(Advice, TellsNoNegativeTimes) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.emulated_accelerators = false;
  job.wait_s = 1.2 * job.window_s;
  job.undisturbed_trainer_cpu_s_per_step = job.trainer_cpu_s_per_step = -0.01;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  EXPECT_GE(advice->own_step_s, 0.001);
  for (const std::string& notice : advice->notices) EXPECT_EQ(notice.find('-'), std::string::npos) << notice;
}

TEST(Advice, ReceivingSamplesIsAFloorThatMoreHelpersDoNotLower) {
  JobFigures job = starving("here", 0.32, 3.825);  // pictures as floats on a third of a core
  job.data_cpu_s_per_sample = job.undisturbed_data_cpu_s_per_sample = 0.001;
  job.trainer_cpu_s_per_step = job.undisturbed_trainer_cpu_s_per_step = 0.0004;
  job.window_s = 100 * 0.055;
  job.groups[0].cpu_s = job.window_s * 0.32;
  job.wait_s = 0.9 * job.window_s;
  job.sample_bytes = 224 * 224 * 3 * 4;
  const double received = 16 * job.sample_bytes * 0.25e-9;
  auto advice = advise(job, kOffers);
  ASSERT_TRUE(advice.ok());
  ASSERT_FALSE(advice->candidates.empty());
  for (const Candidate& c : advice->candidates) EXPECT_GE(c.step_s, (received + 0.0004) / 0.32 - 1e-9);
  EXPECT_NE(advice->summary.find(" (9 ms with helpers: taking in what they send"), std::string::npos)
      << advice->summary;
  job.fed = true;  // both are in what such a job measured
  job.groups.push_back({"data", "ml.c5.9xlarge", "feed", 1, 36, 0, 1.836, 1.44, 1, {}});
  EXPECT_EQ(advise(job, kOffers)->own_step_s, advise(
                                                  [&] {
                                                    JobFigures same = job;
                                                    same.sample_bytes = 0;
                                                    return same;
                                                  }(),
                                                  kOffers)
                                                  ->own_step_s);
}

TEST(Advice, PredictsFromWhatWorkTakesUndisturbed) {
  std::vector<Progress> run = {{0, 1}};
  const double seconds_per_unit[] = {0.5, 0.9, 0.5, 0.7, 0.5, 0.8, 0.5, 0.6, 0.9, 0.6};
  for (double each : seconds_per_unit)
    for (int i = 0; i < 3; ++i) run.push_back({run.back().units + 1, run.back().cpu_s + each});
  EXPECT_NEAR(undisturbed_cpu_s(run), 0.5, 1e-9);
  EXPECT_NEAR(undisturbed_cpu_s(std::vector<Progress>{{0, 1}, {4, 3}}), 0.5, 1e-9);
  EXPECT_EQ(undisturbed_cpu_s(std::vector<Progress>{{3, 1}, {3, 2}}), 0);
  EXPECT_EQ(undisturbed_cpu_s({}), 0);
}

TEST(Advice, RefusesWhatItCannotKnow) {
  JobFigures job = starving("ml.p3.2xlarge", 8, 3.825);
  job.undisturbed_data_cpu_s_per_sample = 0;
  EXPECT_NE(advise(job, kOffers).error().message.find("num_workers > 0"), std::string::npos);
  JobFigures fed = fed_by("ml.c5.2xlarge", 8, 0.408);
  fed.fed = false;  // no feed worker has told anything
  fed.undisturbed_data_cpu_s_per_sample = 0;
  EXPECT_NE(advise(fed, kOffers).error().message.find("too short to be measured"), std::string::npos);
  job.steps = 0;
  EXPECT_FALSE(advise(job, kOffers).ok());
}

}  // namespace
}  // namespace stoker::control
