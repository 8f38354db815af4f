// SPDX-License-Identifier: Apache-2.0
#include "feed/reports.h"

#include <gtest/gtest.h>

namespace stoker::feed {
namespace {

TEST(Reports, SurviveTheTrip) {
  const WorkerReport report{{"algo-2:7171", 4, 9}, {"data", 3.5, 700, 7.25}};
  auto back = WorkerReport::from_json(*Json::parse(report.to_json().dump()));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, report);
  const Sizing::Consumer use{700, 1.5, 2.5, 9};
  EXPECT_EQ(consumer_from_json(*Json::parse(to_json(use).dump())), use);
}

TEST(Reports, AWorkerThatCannotBeDialledIsRefused) {
  for (const char* text : {"{}", R"({"address":7})", R"({"address":"no port"})", "[]", "null"})
    EXPECT_FALSE(WorkerReport::from_json(*Json::parse(text)).ok()) << text;
}

TEST(Reports, FiguresOfAnotherKindAreNone) {
  auto report =
      WorkerReport::from_json(*Json::parse(R"({"address":"a:1","samples":"x","cores":[],"load":1.5})"));
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(*report, (WorkerReport{{"a:1", 0, 0}, {}}));
  EXPECT_EQ(consumer_from_json(Json("x")), Sizing::Consumer{});
}

TEST(Reports, AViewIsReadAsFarAsItIsOne) {
  auto view = Json::parse(R"({"workers":[{"address":"a:1","load":3},7,{"address":"b:2"}]})");
  EXPECT_EQ(addresses_of(*view), (std::vector<std::string>{"a:1", "", "b:2"}));
  EXPECT_TRUE(addresses_of(Json(7)).empty());
}

}  // namespace
}  // namespace stoker::feed
