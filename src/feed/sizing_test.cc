// SPDX-License-Identifier: Apache-2.0
#include "feed/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"

namespace stoker::feed {
namespace {
using testing::HasSubstr;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kReport = kSecond / 2;

// Workers, loops and what lies between them, in steps of 10 ms: enough of the world to close the loop.
struct World {
  struct Worker {
    std::string group = "data";
    double cores = 1, cost_s = 0.01;  // CPU per sample
    double made = 0, cpu_s = 0;
    int64_t from_ns = 0;  // makes samples from then on
    double link_per_s = 1e9;
  };
  struct Loop {
    double own_per_s = 100;  // samples/s while it has them
    double ready = 0, taken = 0, wait_s = 0, time_s = 0;
    bool paused = false;
    double spare_per_s = 0, spared = 0;  // what its own spare cores could make, and have made
    int64_t in_step_with = -1;           // takes no more than that one
  };
  static constexpr double kAhead = 50;  // samples that a loop's window holds

  void pass(double seconds, const std::function<void(int64_t)>& each = {}) {
    for (int64_t end = now + static_cast<int64_t>(seconds * kSecond); now < end;) {
      step(0.01);
      now += kSecond / 100;
      if (now % kReport != 0) continue;
      report();
      if (sizing.decide(now)) ++decisions;
      if (each) each(now);
    }
  }
  void step(double dt) {
    double room = 0;
    for (auto& [id, loop] : loops) room += kAhead - loop.ready;
    double could = 0;
    for (auto& [name, worker] : workers) could += rate(worker) * dt;
    const double made = std::min(could, room), share = could > 0 ? made / could : 0;
    for (auto& [name, worker] : workers) {
      const double some = rate(worker) * dt * share;
      worker.made += some;
      worker.cpu_s += some * worker.cost_s * (1 + noise_now);
    }
    for (auto& [id, loop] : loops) {
      loop.ready += room > 0 ? made * (kAhead - loop.ready) / room : 0;
      const double some = std::min(loop.spare_per_s * dt, kAhead - loop.ready);
      loop.ready += some;
      loop.spared += some;
    }
    for (auto& [id, loop] : loops) {
      loop.time_s += dt;
      if (loop.paused) continue;
      double wants = loop.own_per_s * dt;
      if (loop.in_step_with >= 0)  // waits in an all-reduce, which is no waiting for data
        wants = std::min(
            wants,
            std::max(0.0, loops[static_cast<Sizing::ConsumerId>(loop.in_step_with)].taken - loop.taken));
      const double takes = std::min(wants, loop.ready);
      loop.wait_s += wants > 0 ? dt * (wants - takes) / (loop.own_per_s * dt) : 0;
      loop.taken += takes;
      loop.ready -= takes;
    }
  }
  double rate(const Worker& worker) const {
    if (now < worker.from_ns) return 0;
    return std::min(worker.cores / worker.cost_s, worker.link_per_s);
  }
  void report() {
    for (auto& [name, worker] : workers) {
      sizing.told(name, {worker.group, worker.cores, static_cast<uint64_t>(worker.made), worker.cpu_s}, now);
      noise_now = noise * random.next_uniform(-1, 1);
    }
    for (auto& [id, loop] : loops)
      sizing.told(id,
                  Sizing::Consumer{static_cast<uint64_t>(loop.taken), loop.wait_s, loop.time_s,
                                   static_cast<uint64_t>(loop.spared)},
                  now);
  }
  Sizing::Advice advice(const std::string& group = "data") {
    for (const auto& one : sizing.advice())
      if (one.group == group) return one;
    return {};
  }
  // As the job side does: machines come after a second and leave when they are told to.
  void follow(int most) {
    int wanted = std::min(advice().wanted, most), there = 0;
    for (auto& [name, worker] : workers) there += worker.group == "data";
    for (; there < wanted; ++there)
      workers["new" + std::to_string(next++)] = {"data", 1, 0.01, 0, 0, now + kSecond};
    for (; wanted > 0 && there > wanted; --there) {
      sizing.worker_gone(workers.rbegin()->first, now);
      workers.erase(std::prev(workers.end()));
    }
    most_seen = std::max(most_seen, static_cast<int>(workers.size()));
  }
  std::function<void(int64_t)> following(int most) {
    return [this, most](int64_t) { follow(most); };
  }

  int64_t now = 1000 * kSecond;
  Sizing sizing{now};
  std::map<std::string, Worker> workers;
  std::map<Sizing::ConsumerId, Loop> loops;
  double noise = 0, noise_now = 0;
  SampleRandom random{seed_key(7), 0, 0};
  int decisions = 0, next = 1, most_seen = 0;
};

TEST(Sizing, NothingIsSaidBeforeAWorkerHasMadeSomething) {
  World world;
  world.workers["a"].from_ns = world.now + 10 * kSecond;
  world.loops[1];
  world.pass(9);
  EXPECT_EQ(world.advice().wanted, 0);
}

TEST(Sizing, LoopThatOutrunsOneWorkerGetsAsManyAsItNeedsAtOnce) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 170;
  world.pass(6);
  EXPECT_EQ(world.advice().wanted, 2);
  EXPECT_NEAR(world.advice().demand, 170, 20);
  EXPECT_NEAR(world.advice().supply, 100, 5);
  EXPECT_GT(world.advice().stall, 0.3);
  EXPECT_THAT(world.advice().reason, HasSubstr("1 worker can make 100/s"));
}

// They cost nothing, and what they make no worker need make.
TEST(Sizing, SpareCoresOfTheTrainerSaveAWorker) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 300;
  world.loops[1].spare_per_s = 60;
  world.pass(6);
  EXPECT_EQ(world.advice().wanted, 3);  // 4 without
  EXPECT_NEAR(world.advice().spare, 60, 5);
  EXPECT_THAT(world.advice().reason, HasSubstr("spare cores of the trainer made 60/s"));
  world.pass(60, world.following(16));
  EXPECT_EQ(world.workers.size(), 3U);
  EXPECT_LT(world.advice().stall, 0.02);
  const int decided = world.decisions;
  world.pass(300, world.following(16));
  EXPECT_EQ(world.decisions, decided);
}

TEST(Sizing, GrowsToWhatRemovesTheStallAndStaysThere) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 500;
  world.pass(60, world.following(16));
  EXPECT_EQ(world.workers.size(), 6u);  // 500/s and headroom, each makes 100/s
  EXPECT_LT(world.advice().stall, 0.01);
  int decided = world.decisions;
  world.pass(300, world.following(16));
  EXPECT_EQ(world.decisions, decided);
}

TEST(Sizing, ShrinksAfterAWhileAndByNoMoreThanLeavesHeadroom) {
  World world;
  for (const char* name : {"a", "b", "c", "d"}) world.workers[name];
  world.loops[1].own_per_s = 350;
  world.pass(30, world.following(4));
  ASSERT_EQ(world.workers.size(), 4u);
  world.loops[1].own_per_s = 120;
  world.pass(15, world.following(4));
  EXPECT_EQ(world.workers.size(), 4u);
  world.pass(60, world.following(4));
  EXPECT_EQ(world.workers.size(), 2u);
  EXPECT_LT(world.advice().stall, 0.01);
}

TEST(Sizing, LoopThatPausesShortlyKeepsItsWorkers) {
  World world;
  for (const char* name : {"a", "b", "c"}) world.workers[name];
  world.loops[1].own_per_s = 250;
  world.pass(30);
  for (int i = 0; i < 10; ++i) {  // it writes a checkpoint now and then
    world.loops[1].paused = true;
    world.pass(12);
    world.loops[1].paused = false;
    world.pass(10);
  }
  EXPECT_EQ(world.decisions, 0);
}

TEST(Sizing, MachinesOfALoopThatTakesNothingAreGivenBack) {
  World world;
  for (const char* name : {"a", "b", "c"}) world.workers[name];
  world.loops[1].own_per_s = 250;
  world.pass(30);
  world.loops[1].paused = true;
  world.pass(60);  // step by step, as the pause comes into view
  EXPECT_EQ(world.advice().wanted, 1);
  EXPECT_EQ(world.advice().reason, "nobody takes samples");
}

TEST(Sizing, EndOfAnEpochIsNoReasonToChange) {
  World world;
  for (const char* name : {"a", "b"}) world.workers[name];
  for (Sizing::ConsumerId epoch = 1; epoch < 40; ++epoch) {  // each has a client of its own
    world.loops.clear();
    world.loops[epoch].own_per_s = 140;
    world.pass(4, world.following(4));
    world.sizing.consumer_gone(epoch);
    world.pass(1, world.following(4));
  }
  EXPECT_EQ(world.workers.size(), 2u);
  EXPECT_EQ(world.decisions, 0);
}

TEST(Sizing, StarvedLoopIsNoLoopWithoutDemand) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 170;
  world.pass(6);
  world.workers["a"].cost_s = 1e6;  // hangs, say
  world.pass(20, [&](int64_t) { EXPECT_GE(world.advice().wanted, 2) << "it would take as much as before"; });
  EXPECT_GT(world.advice().demand, 100);
  EXPECT_GT(world.advice().stall, 0.9);
}

TEST(Sizing, UnequalWorkersCountByWhatTheyCanDo) {
  World world;
  world.workers["big"] = {"fixed", 4, 0.01};
  world.workers["old"] = {"data", 1, 0.02};  // an older machine: each sample costs it twice the time
  world.loops[1].own_per_s = 520;
  world.pass(10);
  EXPECT_NEAR(world.advice().supply, 450, 20);
  EXPECT_EQ(world.advice("data").wanted, 4);  // 50/s each, beside the 400/s
  EXPECT_EQ(world.advice("fixed").wanted, 2);
  EXPECT_THAT(world.advice("data").reason, HasSubstr("and other groups 400/s"));
}

TEST(Sizing, SlowerMachineBesideAFasterOneIsNoLoss) {
  World mean, sum;
  mean.workers["a"], mean.workers["b"];
  sum.workers["a"], sum.workers["b"].cost_s = 0.04;
  for (World* world : {&mean, &sum}) {
    world->loops[1].own_per_s = 115;
    world->pass(60, world->following(2));
  }
  EXPECT_NEAR(mean.advice().supply, 200, 5);
  EXPECT_NEAR(sum.advice().supply, 125, 5);
  EXPECT_EQ(sum.workers.size(), 2u);
}

TEST(Sizing, DemandIsNotWhatAStalledLoopGets) {
  World world;
  world.workers["a"].cores = 0.2;  // 20/s
  world.loops[1].own_per_s = 70;
  world.pass(20);
  EXPECT_NEAR(world.advice().demand, 70, 8);  // not 20
}

TEST(Sizing, NoiseInCpuTimeDoesNotMakeItFlap) {
  World world;
  world.noise = 0.6;  // of each half second
  world.workers["a"], world.workers["b"];
  world.loops[1].own_per_s = 150;
  world.pass(1200, world.following(8));
  EXPECT_LE(world.decisions, 4);
  EXPECT_LT(world.advice().stall, Sizing::kStalled);
}

TEST(Sizing, RanksThatDifferAddUp) {
  World world;
  world.workers["a"], world.workers["b"];
  world.loops[1].own_per_s = 90;
  world.loops[2].own_per_s = 180;
  world.loops[3].own_per_s = 30;
  world.pass(60, world.following(8));
  EXPECT_NEAR(world.advice().demand, 300, 15);
  EXPECT_EQ(world.workers.size(), 4u);
}

TEST(Sizing, RanksThatWaitForOneAnotherGrowUntilNoneWaits) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 100;
  for (Sizing::ConsumerId rank = 2; rank <= 4; ++rank) {
    world.loops[rank].own_per_s = 100;
    world.loops[rank].in_step_with = 1;
  }
  world.pass(120, world.following(8));
  EXPECT_LT(world.advice().stall, 0.02);
  EXPECT_GE(world.workers.size(), 4u);
  EXPECT_LE(world.workers.size(), 6u);
}

TEST(Sizing, MoreWorkersAreNotWantedWhereCpuTimeDoesNotBind) {
  World world;
  world.workers["a"].link_per_s = 30;
  world.workers["a"].cores = 4;
  world.loops[1].own_per_s = 100;
  world.pass(60, world.following(8));
  EXPECT_EQ(world.workers.size(), 1u);
  EXPECT_THAT(world.advice().reason, HasSubstr("what binds is not their CPU time"));
}

TEST(Sizing, MoreThanCanBeHadIsWantedWithoutEnd) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 1e5;
  world.pass(300, world.following(2));
  EXPECT_EQ(world.workers.size(), 2u);
  EXPECT_EQ(world.advice().wanted, 8);  // no more than four times as many at once
}

TEST(Sizing, ShrinkingTooEarlyWaitsLongerTheNextTime) {
  World world;
  world.workers["a"], world.workers["b"];
  int shrunk = 0;
  size_t before = world.workers.size();
  for (int i = 0; i < 20; ++i) {  // 30 s of little, 30 s of much
    world.loops[1].own_per_s = i % 2 ? 150 : 40;
    world.pass(30, [&](int64_t) {
      world.follow(2);
      shrunk += world.workers.size() < before;
      before = world.workers.size();
    });
  }
  EXPECT_LE(shrunk, 2);
  EXPECT_EQ(world.workers.size(), 2u);
}

TEST(Sizing, WorkerThatBeginsAgainIsMeasuredAnew) {
  World world;
  world.workers["a"];
  world.loops[1].own_per_s = 80;
  world.pass(20);
  World::Worker& again = world.workers["a"];
  again.made = 0, again.cpu_s = 0;
  world.pass(20);
  EXPECT_NEAR(world.advice().supply, 100, 5);
  EXPECT_EQ(world.decisions, 0);

  again.made = 0, again.cpu_s = 0;
  again.from_ns = world.now + 3 * kSecond;  // it imports torch
  world.pass(3, [&](int64_t) { again.cpu_s += 0.45; });
  world.pass(20, [&](int64_t) { EXPECT_NEAR(world.advice().supply, 100, 5); });
  EXPECT_EQ(world.decisions, 0);
}

TEST(Sizing, GrowthInStepsIsOneMistakeAndAShrinkThatLastsMakesGoodForIt) {
  World world;
  world.workers["a"], world.workers["b"];
  auto after = [&](double per_s, double seconds) {
    world.loops[1].own_per_s = per_s;
    world.pass(seconds, world.following(16));
    return world.workers.size();
  };
  EXPECT_EQ(after(40, 35), 1u);
  EXPECT_EQ(after(1400, 30), 16u);  // 1, 4, 16: twice the 20 s from now on, not eight times
  EXPECT_EQ(after(40, 30), 16u);
  EXPECT_LT(after(40, 25), 16u);
  EXPECT_EQ(after(40, 200), 1u);  // that was right: 20 s again
  EXPECT_EQ(after(1400, 30), 16u);
  EXPECT_LT(after(40, 35), 16u);
}

TEST(Sizing, WhoSaysNoCoresOrNonsenseIsLeftOut) {
  World world;
  world.workers["a"].cores = 0;
  world.loops[1];
  world.pass(20);
  EXPECT_TRUE(world.sizing.advice().empty());

  world.workers["b"];
  world.loops[1].own_per_s = 150;
  const double nan = std::nan(""), inf = INFINITY;
  for (int i = 0; i < 40; ++i) {
    world.pass(0.5);
    for (double cores : {nan, inf, -1.0, 1e300}) world.sizing.told("c", {"data", cores, 7, 1}, world.now);
    for (double cpu_s : {nan, inf, -1.0}) world.sizing.told("c", {"data", 1, ~uint64_t{0}, cpu_s}, world.now);
    for (double time_s : {nan, inf, -1.0, 1e300})
      world.sizing.told(9, Sizing::Consumer{~uint64_t{0}, time_s, time_s}, world.now);
  }
  EXPECT_EQ(world.advice().workers, 1);
  EXPECT_EQ(world.advice().wanted, 2);
  EXPECT_NEAR(world.advice().demand, 150, 15);
}

}  // namespace
}  // namespace stoker::feed
