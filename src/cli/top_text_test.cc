// SPDX-License-Identifier: Apache-2.0
#include "cli/top_text.h"

#include <gtest/gtest.h>

namespace stoker::cli {
namespace {

Json figures(const std::string& more = "") {
  return *Json::parse(R"({"cpu_percent":312.4,"cpu_percent_max":400,"memory_bytes":1200000000,
    "memory_limit_bytes":16000000000,"accelerators":1,"accelerator":"emulated","steps_per_s":12.34,
    "samples_per_s":789.6,"waiting":0.034,"received_bytes_per_s":118000000,"sent_bytes_per_s":null,
    "queue_bytes":64000000,"errors":{})" +
                      more + "}");
}

Json job(std::vector<Json> groups) {
  Json job;
  job.set("job", "train-1").set("phase", "running").set("since_s", 33.0);
  job.set("groups", Json::Array(groups.begin(), groups.end()));
  Json live;
  live.set("jobs", Json::Array{job});
  return live;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

TEST(TopText, GroupIsALineAndItsInstancesWhereThereAreSeveral) {
  Json one = figures(R"(,"group":"train","role":"","hosts":[{"host":"algo-1","phase":"running"}])");
  std::string text = joined(top_lines(job({one})));
  EXPECT_NE(text.find("train-1 · running 33 s\n"), std::string::npos) << text;
  EXPECT_NE(text.find("312/400 %  1.2 GB/16.0 GB   1 emulated     12.3        790      3 %  118 MB/s  64 MB"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("algo-1"), std::string::npos) << text;
  one.set("hosts",
          *Json::parse(R"([{"host":"algo-1","phase":"running"},{"host":"algo-2","phase":"preparing"}])"));
  text = joined(top_lines(job({one})));
  EXPECT_NE(text.find("algo-1 "), std::string::npos) << text;
  EXPECT_NE(text.find("algo-2 (preparing)"), std::string::npos) << text;
}

TEST(TopText, WhatIsNotKnownIsADash) {
  Json one;
  one.set("group", "train");
  const std::string text = joined(top_lines(job({one})));
  EXPECT_NE(text.find("-/0 %"), std::string::npos) << text;
  EXPECT_EQ(text.find("0.00"), std::string::npos) << text;
}

TEST(TopText, JobThatIsOverIsOneLine) {
  Json one = figures();
  one.set("group", "train").set("instances", 0);
  EXPECT_EQ(top_lines(job({one})), (std::vector<std::string>{"train-1 · running 33 s"}));
}

TEST(TopText, FeedGroupSaysWhatItsDispatcherWantsAndWhatWentWrong) {
  Json told = figures();
  told.set("group", "data")
      .set("role", "feed")
      .set("running", 1)
      .set("wanted", 3)
      .set("why", "the loop waits 40 %");
  told.set("hedged", 2).set("errors", *Json::parse(R"({"refused_token":1,"lost":4})"));
  const std::string text = joined(top_lines(job({told})));
  EXPECT_NE(text.find("data:feed"), std::string::npos) << text;
  EXPECT_NE(text.find("1 running, 3 wanted: the loop waits 40 % · 2 asked twice · 4 lost · 1 refused token"),
            std::string::npos)
      << text;
}

TEST(TopText, SaysThatTheLinkIsTooSlowWhereItBinds) {
  Json told = figures(R"(,"group":"train","link_busy":0.8,"link_binds":false)");
  EXPECT_EQ(joined(top_lines(job({told}))).find("link"), std::string::npos);
  told.set("link_binds", true);
  EXPECT_NE(joined(top_lines(job({told}))).find("the link is too slow: waited for 80 % of the time"),
            std::string::npos);
}

TEST(TopText, WhatAJobSuppliedDoesNotReachTheTerminal) {
  Json told = figures();
  told.set("group", "a\x1b[2Jb").set("wanted", 1).set("why", "x\x1b]0;title\x07\ny");
  const std::string text = joined(top_lines(job({told})));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
}

TEST(TopText, FitsAScreen) {
  EXPECT_EQ(fitted({"abcdef", "äöü", "äöüß"}, 3, 9), (std::vector<std::string>{"ab…", "äöü", "äö…"}));
  EXPECT_EQ(fitted({"1", "2", "3", "4"}, 80, 3), (std::vector<std::string>{"1", "2", "… 2 more lines"}));
  EXPECT_EQ(fitted({"1", "2", "3"}, 80, 3).back(), "3");
}

}  // namespace
}  // namespace stoker::cli
