// SPDX-License-Identifier: Apache-2.0
#include "telemetry/series.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

namespace stoker::telemetry {
namespace {

class Series : public testing::Test {
 protected:
  Series() { path_ = std::string(mkdtemp(folder_)) + "/s.jsonl"; }
  ~Series() override {
    unlink(path_.c_str());
    rmdir(folder_);
  }
  char folder_[32] = "/tmp/stoker-series-XXXXXX";
  std::string path_;
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

TEST_F(Series, MissingFileIsEmpty) { EXPECT_TRUE(read_series("/no/such/file")->empty()); }

}  // namespace
}  // namespace stoker::telemetry
