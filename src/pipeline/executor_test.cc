// SPDX-License-Identifier: Apache-2.0
#include "pipeline/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <vector>

namespace stoker::pipeline {
namespace {

TEST(Executor, RunsTheLowestOrderFirst) {
  Executor executor(1, 100);
  std::promise<void> begun, go;
  std::vector<uint64_t> ran;
  std::promise<void> done;
  ASSERT_TRUE(executor.start().ok());
  ASSERT_TRUE(executor.submit(50, [&](Scratch&) { begun.set_value(), go.get_future().wait(); }).ok());
  begun.get_future().wait();  // the only thread is busy: what follows is sorted before it runs
  for (uint64_t order : {9, 3, 7, 1})
    ASSERT_TRUE(executor.submit(order, [&, order](Scratch&) { ran.push_back(order); }).ok());
  ASSERT_TRUE(executor.submit(99, [&](Scratch&) { done.set_value(); }).ok());
  EXPECT_EQ(executor.queued(), 5u);
  go.set_value();
  done.get_future().wait();
  EXPECT_EQ(ran, (std::vector<uint64_t>{1, 3, 7, 9}));
}

TEST(Executor, RefusesMoreThanItsLimitAndAfterStop) {
  Executor executor(1, 2);
  EXPECT_TRUE(executor.submit(0, [](Scratch&) {}).ok());
  EXPECT_TRUE(executor.submit(1, [](Scratch&) {}).ok());
  EXPECT_EQ(executor.submit(2, [](Scratch&) {}).error().code, Code::kUnavailable);
  executor.stop();
  EXPECT_EQ(executor.submit(3, [](Scratch&) {}).error().code, Code::kCancelled);
}

TEST(Executor, StopWaitsForTheRunningAndDropsTheRest) {
  Executor executor(2, 100);
  std::promise<void> begun, go;
  std::atomic<int> finished = 0, others = 0;
  ASSERT_TRUE(executor
                  .submit(0,
                          [&](Scratch&) {
                            begun.set_value();
                            go.get_future().wait();
                            ++finished;
                          })
                  .ok());
  ASSERT_TRUE(executor.submit(1, [&](Scratch&) { ++others; }).ok());
  ASSERT_TRUE(executor.start().ok());
  begun.get_future().wait();
  go.set_value();
  executor.stop();
  EXPECT_EQ(finished, 1);
  EXPECT_LE(others, 1);
}

TEST(Executor, AddsUpTheTimesOfItsThreads) {
  constexpr int kTasks = 200;
  Executor executor(4, kTasks);
  std::atomic<int> left = kTasks;
  std::promise<void> done;
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(executor
                    .submit(static_cast<uint64_t>(i),
                            [&](Scratch& scratch) {
                              ++scratch.times.samples;
                              if (--left == 0) done.set_value();
                            })
                    .ok());
  }
  ASSERT_TRUE(executor.start().ok());
  done.get_future().wait();
  executor.stop();
  EXPECT_EQ(executor.times().samples, uint64_t{kTasks});
}

}  // namespace
}  // namespace stoker::pipeline
