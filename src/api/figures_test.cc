// SPDX-License-Identifier: Apache-2.0
#include "api/figures.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/test_folder.h"
#include "control/test_jobs.h"

namespace stoker::api {
namespace {

class Figures : public testing::Test {
 protected:
  Figures() {
    std::filesystem::create_directories(folder_ + "/telemetry/algo-1");
    job_.spec = control::example_job({"train=1xhere"});
    job_.state = control::new_job(job_.spec, 1, 1);
  }

  std::string loader(const std::string& name = "loader-1.jsonl") const {
    return folder_ + "/telemetry/algo-1/" + name;
  }
  void write_steps(const std::string& path) const {
    std::ofstream file(path);
    for (int i = 1; i <= 11; ++i)
      file << R"({"t":)" << 100 + i << R"(,"loader":1,"steps":)" << i << R"(,"step_s":)" << i * 0.5
           << R"(,"wait_s":)" << i * 0.25 << R"(,"batches":)" << i << R"(,"samples":)" << i * 4
           << R"(,"batch_size":4})"
           << "\n";
  }

  TestFolder own_;
  const std::string folder_ = own_.path();
  control::StoredJob job_;
};

TEST_F(Figures, AreOfTheLoaderThatTookMostSteps) {
  write_steps(loader());
  std::ofstream(loader("loader-2.jsonl")) << "{\"t\":1,\"loader\":1,\"steps\":2,\"step_s\":1}\n";
  auto figures = read_figures(job_, folder_);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->steps, 10);
  EXPECT_EQ(figures->step_s(), 0.5);
  EXPECT_EQ(figures->wait_share(), 0.5);
  EXPECT_EQ(figures->samples_per_step, 4);
  EXPECT_TRUE(figures->notices.empty());
}

TEST_F(Figures, OfAJobWithoutStepsSayWhy) {
  auto why = [&] { return read_figures(job_, folder_).error().message; };
  EXPECT_EQ(why(), "job job has no measured steps: it is queued");
  job_.state.phase = control::JobPhase::kRunning;
  EXPECT_NE(why().find("no measured steps yet: its script must use stoker.DataLoader"), std::string::npos)
      << why();
  std::ofstream(loader()) << R"({"t":1,"loader":1,"steps":0,"batches":2})"
                          << "\n";
  job_.state.phase = control::JobPhase::kCompleted;
  EXPECT_NE(why().find("its loader has given 2 batches, and it takes at least three"), std::string::npos)
      << why();
}

TEST_F(Figures, TellHowLongTheWireWasWaitedFor) {
  std::ofstream file(loader());
  for (int i = 1; i <= 3; ++i)
    file << R"({"t":)" << i << R"(,"loader":1,"steps":)" << i << R"(,"step_s":)" << i
         << R"(,"fed":{"starved_s":)" << 0.5 * i << R"(,"received_bytes":)" << 100 * i << "}}\n";
  file << std::flush;
  auto figures = read_figures(job_, folder_);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->starved_s, 1);
  EXPECT_EQ(figures->received_bytes, 200);
}

TEST_F(Figures, TellWhatTheLoopsThreadDidAndWhoMadeTheSamples) {
  std::ofstream file(loader());
  for (int i = 1; i <= 3; ++i)
    file << R"({"t":)" << i << R"(,"loader":1,"steps":)" << i << R"(,"step_s":)" << i << R"(,"samples":)" << i
         << R"(,"blocked_s":)" << 0.5 * i << R"(,"loop_cpu_s":)" << 0.25 * i << R"(,"client_cpu_s":)"
         << 0.125 * i << R"(,"data_cpu_s":)" << i << R"(,"inline_cpu_s":)" << 0.9 * i
         << R"(,"hands":2,"sample_bytes":300})"
         << "\n";
  file << std::flush;
  auto figures = read_figures(job_, folder_);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->blocked_s, 1);
  EXPECT_EQ(figures->loop_cpu_s, 0.5);
  EXPECT_EQ(figures->client_cpu_s, 0.25);
  EXPECT_EQ(figures->hands, 2);
  EXPECT_EQ(figures->sample_bytes, 300);
  EXPECT_TRUE(figures->inline_data);
}

TEST_F(Figures, HugeFileOfTheScriptsIsNotReadWhole) {
  write_steps(loader());
  std::filesystem::resize_file(loader(),
                               uintmax_t{1} << 40);  // a hole of a terabyte, without any end of line
  auto figures = read_figures(job_, folder_);
  ASSERT_TRUE(figures.ok()) << figures.error().message;
  EXPECT_EQ(figures->steps, 10);
  ASSERT_EQ(figures->notices.size(), 1u);
  EXPECT_NE(figures->notices[0].find("the telemetry of algo-1 of job is larger"), std::string::npos)
      << figures->notices[0];
}

TEST_F(Figures, ManyFilesOfTheScriptsAreNotReadAll) {
  for (int i = 0; i < 1100; ++i) std::ofstream(loader("loader-" + std::to_string(i)));
  auto figures = read_figures(job_, folder_);
  ASSERT_FALSE(figures.ok());
  EXPECT_NE(figures.error().message.find("larger than what is read"), std::string::npos)
      << figures.error().message;
}

}  // namespace
}  // namespace stoker::api
