// SPDX-License-Identifier: Apache-2.0
#include "control/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/cost.h"
#include "control/test_jobs.h"

namespace stoker::control {
namespace {

using testing::HasSubstr;
constexpr int64_t kGiB = int64_t{1} << 30;
const Machine kMachine{2, 16 * kGiB, 0, ""};

TEST(Scheduler, PublishedExampleFitsTwoCores) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge", "data=1xml.c5.9xlarge:feed"});
  spec.fewer_gpus = true;
  Need need = need_of(spec, kMachine);
  EXPECT_NEAR(need.cores, 44 * 0.04, 1e-9);
  EXPECT_EQ(need.gpus, 0);
  EXPECT_TRUE(check_fits_ever(spec, kMachine).ok());
}

TEST(Scheduler, NeverFitsNamesTheScaleThatWould) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge", "data=1xml.c5.9xlarge:feed"});
  spec.fewer_gpus = true;
  spec.cpu_scale = 1;
  Status fits = check_fits_ever(spec, kMachine);
  ASSERT_FALSE(fits.ok());
  EXPECT_THAT(fits.error().message, HasSubstr("needs 44 cores and this machine has 2"));
  EXPECT_THAT(fits.error().message, HasSubstr("--cpu-scale 0.045,"));
  spec.fewer_gpus = false;
  EXPECT_THAT(check_fits_ever(spec, kMachine).error().message,
              HasSubstr("--cpu-scale 0.045 --fewer-gpus, the most that fits"));
  spec.fewer_gpus = true;
  spec.cpu_scale = 0.045;
  EXPECT_TRUE(check_fits_ever(spec, kMachine).ok());
  spec.cpu_scale = 0.046;
  EXPECT_FALSE(check_fits_ever(spec, kMachine).ok());
}

TEST(Scheduler, AcceleratorsAreNeverInvented) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge"});
  Status fits = check_fits_ever(spec, kMachine);
  ASSERT_FALSE(fits.ok());
  EXPECT_THAT(fits.error().message, HasSubstr("--fewer-gpus"));
  Machine with_gpu = kMachine;
  with_gpu.gpus = 1;
  EXPECT_TRUE(check_fits_ever(spec, with_gpu).ok());
  spec.fewer_gpus = true;
  EXPECT_EQ(need_of(spec, with_gpu).gpus, 1);
}

TEST(Scheduler, MemoryIsScaledButNeverUnderOneGiB) {
  JobSpec spec = example_job({"train=16xml.c5.large"});  // 4 GiB x 0.04 each
  EXPECT_EQ(need_of(spec, kMachine).memory_bytes, 16 * kGiB);
  spec = example_job({"train=17xml.c5.large"});
  Status fits = check_fits_ever(spec, kMachine);
  ASSERT_FALSE(fits.ok());
  EXPECT_THAT(fits.error().message, HasSubstr("GiB of memory"));
}

Waiting job(const char* name, double cores, int64_t gib = 1) { return {name, {cores, gib * kGiB, 0}}; }

TEST(Scheduler, FirstComeFirstServed) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(pick({job("a", 1), job("b", 1), job("c", 1)}, {}, kMachine), (Names{"a", "b"}));
  EXPECT_EQ(pick({job("a", 1), job("b", 2), job("c", 1)}, {}, kMachine), Names{"a"});  // c doesn't pass b
  EXPECT_EQ(pick({job("a", 2)}, {job("x", 0.1)}, kMachine), Names{});
  EXPECT_EQ(pick({job("a", 0.5, 16)}, {job("x", 0.1)}, kMachine), Names{});
  // Thirds of a machine add up to it, whatever floating point says.
  EXPECT_EQ(pick({job("a", 2 * 0.1), job("b", 2 * 0.2), job("c", 2 * 0.7)}, {}, kMachine),
            (Names{"a", "b", "c"}));
}

TEST(Scheduler, SaysWhatAJobWaitsFor) {
  EXPECT_EQ(why_waiting(job("a", 1.8), {}, {job("x", 1.8)}, kMachine),
            "needs 1.8 cores, 0.2 are free (held by x)");
  EXPECT_EQ(why_waiting(job("a", 0.1), {job("b", 2)}, {job("x", 1)}, kMachine), "waits behind b");
  EXPECT_THAT(why_waiting(job("a", 0.1, 16), {}, {job("x", 1)}, kMachine),
              HasSubstr("needs 16 GiB, 15 are free"));
}

TEST(Cost, EveryInstanceIsBilledUntilTheJobIsOver) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge", "data=1xml.c5.9xlarge:feed"});
  JobState state = new_job(spec, 0, 0);
  ASSERT_TRUE(price_per_hour(spec, state).has_value());
  EXPECT_NEAR(*price_per_hour(spec, state), 5.661, 1e-9);
  EXPECT_EQ(*cost(spec, state, 50'000), 0);  // waiting costs nothing
  state.placed_ms = 10'000;
  EXPECT_NEAR(*cost(spec, state, 370'000), 0.5661, 1e-9);
  state.over_ms = 46'000;
  EXPECT_NEAR(*cost(spec, state, 1'000'000), 0.05661, 1e-9);
  const JobSpec here = example_job({"train=1xhere"});
  EXPECT_FALSE(cost(here, new_job(here, 0, 0), 0).has_value());  // its price isn't known
}

TEST(Cost, InstanceThatWasAddedIsBilledWhileItWasThere) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge", "data=1..2xml.c5.9xlarge:feed"});
  JobState state = new_job(spec, 0, 0);
  const double price = *spec.find_group("data")->type.price_per_hour, before = *price_per_hour(spec, state);
  state.placed_ms = 10'000;
  HostState extra;
  extra.group = "data", extra.phase = HostPhase::kRunning, extra.extra = true, extra.given_ms = 100'000;
  state.hosts.push_back(extra);
  EXPECT_NEAR(*price_per_hour(spec, state), before + price, 1e-9);
  EXPECT_NEAR(*cost(spec, state, 110'000), before * 100 / 3600 + price * 10 / 3600, 1e-9);
  state.hosts.back().phase = HostPhase::kReleased;
  state.hosts.back().released_ms = 140'000;
  state.over_ms = 370'000;
  EXPECT_NEAR(*price_per_hour(spec, state), before, 1e-9);
  EXPECT_NEAR(*cost(spec, state, 1'000'000), before * 360 / 3600 + price * 40 / 3600, 1e-9);
  EXPECT_EQ(billed_seconds(state, state.hosts.back(), 120'000, 400'000), 20);
  EXPECT_EQ(billed_seconds(state, state.hosts.back(), 200'000, 400'000), 0);
}

TEST(Scheduler, AddedInstancesAreHeldUntilTheyAreReleased) {
  JobSpec spec = example_job({"train=1xml.p3.2xlarge", "data=1..4xml.c5.2xlarge:feed"});  // 0.32 cores each
  spec.fewer_gpus = true;
  JobState state = new_job(spec, 0, 0);
  EXPECT_NEAR(held_by(spec, state, kMachine).cores, 0.64, 1e-9);
  HostState extra;
  extra.group = "data", extra.phase = HostPhase::kPreparing, extra.extra = true;
  state.hosts.push_back(extra);
  EXPECT_NEAR(held_by(spec, state, kMachine).cores, 0.96, 1e-9);
  const Need one = need_of_one(spec, *spec.find_group("data"));
  EXPECT_EQ(how_many_fit(one, 3, {{"job", held_by(spec, state, kMachine)}}, kMachine), 3);
  EXPECT_EQ(how_many_fit(one, 9, {{"job", held_by(spec, state, kMachine)}}, kMachine), 3);
  EXPECT_EQ(how_many_fit(one, 9, {{"all", {2, 0, 0}}}, kMachine), 0);
  state.hosts.back().phase = HostPhase::kReleased;
  EXPECT_NEAR(held_by(spec, state, kMachine).cores, 0.64, 1e-9);
}

TEST(Catalogue, TypesAndTheirMistakes) {
  Catalogue catalogue = *Catalogue::built_in();
  auto type = catalogue.find("p3.2xlarge", kMachine);
  ASSERT_TRUE(type.ok());
  EXPECT_EQ(type->name, "ml.p3.2xlarge");
  EXPECT_EQ(type->vcpus, 8);
  EXPECT_EQ(type->gpus, 1);
  EXPECT_EQ(*type->price_per_hour, 3.825);
  auto here = catalogue.find("here", kMachine);
  ASSERT_TRUE(here.ok());
  EXPECT_EQ(here->cores(0.04), 2);  // real cores are not scaled
  auto own = catalogue.find("cpus=8,gpus=1,price=0.4,memory=16", kMachine);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->vcpus, 8);
  EXPECT_EQ(own->memory_bytes, 16 * kGiB);
  EXPECT_EQ(*own->price_per_hour, 0.4);
  const std::pair<const char*, const char*> mistakes[] = {
      {"p3.4xlarge", "ml.p3.2xlarge, ml.p3.8xlarge"},
      {"nonsense", "`here` is this machine"},
      {"gpus=1", "cpus=N"},
      {"cpus=x", "'x' is not a whole number"},
      {"cpus=1.5", "whole number"},
      {"cpus=1e300", "to 100000 (vCPUs)"},
      {"cpus=1,gpus=1e300", "to 10000 (accelerators)"},
      {"cpus=1,memory=1e300", "to 1000000 (GiB)"},
      {"cpus=1,price=nan", "'nan' is not a number"},
      {"cpus=1,price=inf", "(USD per hour)"},
      {"cpus=1,price=1e300", "to 1000000 (USD per hour)"},
      {"cpus=1,cpus=2", "'cpus' is given twice"},
      {"cpus=1,price=1,price=1", "'price' is given twice"},
      {"cpus=1,cores=2", "'cores'"}};
  for (const auto& [name, expected] : mistakes) {
    auto found = catalogue.find(name, kMachine);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_THAT(found.error().message, HasSubstr(expected));
  }
  ASSERT_TRUE(
      catalogue.add(R"({"instances":[{"type":"ml.p3.2xlarge","vcpu":9,"memory_gib":1}]})", "own").ok());
  EXPECT_EQ(catalogue.find("p3.2xlarge", kMachine)->vcpus, 9);
  EXPECT_FALSE(catalogue.add(R"({"instances":[{"type":"ml.x.y","vcpu":9,"memory_gib":1e300}]})", "own").ok());
  for (const char* price : {"1e300", "-1", "\"0.4\""}) {
    Status added = catalogue.add(R"({"instances":[{"type":"ml.x.y","vcpu":9,"memory_gib":1,)"
                                 R"("sagemaker_usd_per_hour":)" +
                                     std::string(price) + "}]}",
                                 "own");
    ASSERT_FALSE(added.ok()) << price;
    EXPECT_THAT(added.error().message, HasSubstr("own: ml.x.y: sagemaker_usd_per_hour: "));
  }
}

}  // namespace
}  // namespace stoker::control
