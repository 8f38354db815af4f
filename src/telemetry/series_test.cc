// SPDX-License-Identifier: Apache-2.0
#include "telemetry/series.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/test_folder.h"
#include "telemetry/tail.h"

namespace stoker::telemetry {
namespace {

class Series : public testing::Test {
 protected:
  TestFolder folder_;
  std::string path_ = folder_.path() + "/s.jsonl";
};

TEST_F(Series, ComesBackAndGivesCores) {
  {
    auto writer = LineWriter::open(path_);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->append(UsageSample{10, 1, 0, 5}.to_json()).ok());
    ASSERT_TRUE(writer->append(UsageSample{14, 3, 0.5, 7}.to_json()).ok());
  }
  auto series = read_series(path_);
  ASSERT_TRUE(series.ok());
  EXPECT_EQ(*series, (std::vector<UsageSample>{{10, 1, 0, 5}, {14, 3, 0.5, 7}}));
  EXPECT_EQ(mean_cores(*series), 0.5);
  EXPECT_EQ(mean_cores({}), 0);
}

TEST_F(Series, LineThatWasCutCostsOnlyItself) {
  std::ofstream(path_) << "{\"t\":1}\n{\"t\":2,\"cp";
  EXPECT_EQ(read_series(path_)->size(), 1u);
  auto writer = LineWriter::open(path_);
  ASSERT_TRUE(writer->append(UsageSample{3}.to_json()).ok());
  auto series = read_series(path_);
  ASSERT_EQ(series->size(), 2u);
  EXPECT_EQ(series->back().t, 3);
}

TEST_F(Series, FileOfAnySizeIsReadWithinItsBudget) {
  std::ofstream file(path_);
  file << "{\"t\":1}\n[1]\nno JSON\n{\"t\":2,\"x\":\"" << std::string(kLongestLine, 'x')
       << "\"}\n{\"t\":3}\n";
  for (int i = 0; i < 10'000; ++i) file << "{\"t\":4}\n";
  file << std::string(8 << 20, 'y') << "\n{\"t\":5}\n" << std::flush;
  auto times = [&](ReadBudget& budget) {
    std::vector<double> seen;
    EXPECT_TRUE(
        read_lines(path_, budget, [&](const Json& line) { seen.push_back(line["t"].as_double()); }).ok());
    return seen;
  };
  ReadBudget enough;
  auto all = times(enough);
  EXPECT_FALSE(enough.spent);
  ASSERT_EQ(all.size(), 10'003u);  // the object that was too long is left out, and nothing after it
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 3), (std::vector<double>{1, 3, 4}));
  EXPECT_EQ(all.back(), 5);
  ReadBudget lines{1 << 30, 5};
  EXPECT_EQ(times(lines), (std::vector<double>{1, 3, 4, 4, 4}));
  EXPECT_TRUE(lines.spent);
  ReadBudget bytes{4 << 20};
  EXPECT_EQ(times(bytes).size(), 10'002u);
  EXPECT_TRUE(bytes.spent);
  EXPECT_TRUE(times(bytes).empty()) << "several files share one budget";
}

TEST_F(Series, TailHasTheLastWholeLines) {
  std::ofstream file(path_);
  for (int i = 0; i < 1000; ++i) file << "{\"t\":" << 1000 + i << "}\n";
  file << "no JSON\n{\"t\":5}\n{\"t\":6" << std::flush;
  std::vector<double> seen;
  auto take = [&](const Json& line) { seen.push_back(line["t"].as_double()); };
  ASSERT_TRUE(read_tail(path_, 40, take).ok());
  EXPECT_EQ(seen, (std::vector<double>{1999, 5}));
  seen.clear();
  ASSERT_TRUE(read_tail(path_, 1 << 20, take).ok());
  EXPECT_EQ(seen.size(), 1001u);
  EXPECT_TRUE(read_tail("/no/such/file", 100, [](const Json&) { FAIL(); }).ok());
}

TEST_F(Series, WhatIsNoPlainFileHasNoLines) {
  ReadBudget budget;
  auto fail = [](const Json&) { FAIL(); };
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_TRUE(read_lines(path_, budget, fail).ok());
  EXPECT_TRUE(read_lines(folder_.path(), budget, fail).ok());
  EXPECT_TRUE(read_tail(path_, 100, fail).ok());
  const std::string link = path_ + ".link";
  ASSERT_EQ(symlink("/etc/passwd", link.c_str()), 0);
  EXPECT_TRUE(read_lines(link, budget, fail).ok());
  EXPECT_TRUE(read_tail(link, 100, fail).ok());
}

TEST_F(Series, LongRunLosesResolutionAndKeepsItsEnds) {
  {
    auto writer = LineWriter::open(path_);
    for (int i = 0; i <= 1000; ++i)
      ASSERT_TRUE(writer->append(UsageSample{double(i), i * 0.5}.to_json()).ok());
  }
  auto series = read_series(path_, 64);
  ASSERT_TRUE(series.ok());
  EXPECT_LE(series->size(), 65u);
  EXPECT_GE(series->size(), 32u);
  EXPECT_EQ(series->front().t, 0);
  EXPECT_EQ(series->back().t, 1000);
  EXPECT_EQ(mean_cores(*series), 0.5);
}

TEST_F(Series, MissingFileIsEmpty) { EXPECT_TRUE(read_series("/no/such/file")->empty()); }

}  // namespace
}  // namespace stoker::telemetry
