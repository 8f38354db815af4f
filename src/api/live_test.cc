// SPDX-License-Identifier: Apache-2.0
// What is told of running jobs, from lines as loaders, feed workers and agents write them.
#include "api/live.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/prometheus.h"
#include "base/clock.h"
#include "base/test_folder.h"
#include "control/test_jobs.h"

namespace stoker::api {
namespace {

class Live : public testing::Test {
 protected:
  Live() {
    for (const char* name : {"/metrics", "/telemetry/algo-1", "/telemetry/algo-2"})
      std::filesystem::create_directories(folder_ + name);
    job_.spec = control::example_job({"train=1xcpus=4,gpus=1,memory=100", "data=1xcpus=8:feed"});
    job_.spec.cpu_scale = 0.5;
    job_.state = control::new_job(job_.spec, 1, 1);
    job_.state.hosts[0].group = "train";
    job_.state.hosts[1].group = "data";
    for (control::HostState& host : job_.state.hosts) host.phase = control::HostPhase::kRunning;
    job_.state.phase = control::JobPhase::kRunning;
  }

  void line(const std::string& file, double ago_s, const std::string& members) const {
    Json json = *Json::parse("{" + members + "}");
    json.set("t", now_s_ - ago_s);
    std::ofstream(folder_ + file, std::ios::app) << json.dump() << "\n";
  }
  RecentJob recent() const { return read_recent(job_, folder_, true, now_s_); }
  Json group(size_t index) const { return live_json(recent(), now_s_)["groups"].as_array()[index]; }

  TestFolder own_;
  const std::string folder_ = own_.path();
  const double now_s_ = static_cast<double>(system_clock().wall_ms()) / 1000;
  control::StoredJob job_;
};

TEST_F(Live, RatesAreOfTheLastSecondsAndNotOfTheRun) {
  const std::string file = "/metrics/algo-1.jsonl";
  line(file, 1000, R"("cpu_s":0,"memory_bytes":5)");
  line(file, 6, R"("cpu_s":900,"memory_bytes":5)");
  line(file, 3, R"("cpu_s":902,"memory_bytes":6)");
  line(file, 1, R"("cpu_s":905,"memory_bytes":7)");
  const Json train = group(0);
  EXPECT_DOUBLE_EQ(train["cpu_percent"].as_double(), 200);  // a core of a half-size vCPU is 200 %
  EXPECT_EQ(train["cpu_percent_max"].as_double(), 400);
  EXPECT_EQ(train["memory_bytes"].as_int(), 7);
  EXPECT_EQ(train["accelerator"].as_string(), "emulated");
  EXPECT_TRUE(train["steps_per_s"].is_null());
  EXPECT_TRUE(group(1)["cpu_percent"].is_null());
  EXPECT_TRUE(group(1)["accelerator"].is_null());
}

TEST_F(Live, StepsAndWaitingAreOfAllLoadersOfAProcessAndOfTheStepThatGoesOn) {
  const std::string file = "/telemetry/algo-1/loader-7.jsonl";
  line(file, 5, R"("loader":1,"steps":100,"step_s":50,"wait_s":5,"samples":400)");
  line(file, 5, R"("loader":2,"steps":9,"step_s":9,"wait_s":9,"samples":9)");
  line(file, 1,
       R"("loader":1,"steps":104,"step_s":52,"wait_s":5.5,"samples":416,"now_s":2,"now_wait_s":1.5)");
  line(file, 1, R"("loader":2,"steps":9,"step_s":9,"wait_s":9,"samples":9)");
  const Json train = group(0);
  EXPECT_NEAR(train["steps_per_s"].as_double(), 1, 1e-6);
  EXPECT_NEAR(train["samples_per_s"].as_double(), 4, 1e-6);
  EXPECT_NEAR(train["waiting"].as_double(), 0.5, 1e-6);
}

TEST_F(Live, TheLinkBindsWhereNeitherTheLoopNorTheFeedWorkersDo) {
  auto lines = [&](const std::string& starved, const std::string& wait, const std::string& cpu) {
    for (const char* file : {"/telemetry/algo-1/loader-7.jsonl", "/metrics/algo-2.jsonl"})
      std::filesystem::remove(folder_ + file);
    const std::string loader = R"("loader":1,"steps":)";
    line("/telemetry/algo-1/loader-7.jsonl", 5,
         loader + R"(10,"step_s":10,"wait_s":0,"fed":{"starved_s":0})");
    line("/telemetry/algo-1/loader-7.jsonl", 1,
         loader + R"(14,"step_s":14,"wait_s":)" + wait + R"(,"fed":{"starved_s":)" + starved + "}");
    line("/metrics/algo-2.jsonl", 5, R"("cpu_s":0)");
    line("/metrics/algo-2.jsonl", 1, R"("cpu_s":)" + cpu);  // of 16 in these four seconds
    return group(0)["link_binds"].as_bool();
  };
  EXPECT_TRUE(lines("3.2", "3.6", "4"));
  EXPECT_FALSE(lines("1.2", "3.6", "4"));     // hardly waited for
  EXPECT_FALSE(lines("3.2", "3.6", "12.4"));  // they make samples for about as long
  EXPECT_FALSE(lines("3.2", "3.6", "15"));    // senders that are held back by their quota
  EXPECT_FALSE(lines("2.4", "1.2", "4"));     // carries more than the loop would take
}

TEST_F(Live, LoopThatIsStuckInItsFirstBatchWaits) {
  const std::string file = "/telemetry/algo-1/loader-7.jsonl";
  line(file, 4, R"("loader":1,"steps":0,"now_s":1,"now_wait_s":1)");
  line(file, 1, R"("loader":1,"steps":0,"now_s":4,"now_wait_s":4)");
  EXPECT_NEAR(group(0)["waiting"].as_double(), 1, 1e-6);
  EXPECT_EQ(group(0)["steps_per_s"].as_double(-1), 0);
}

TEST_F(Live, WhoHasEndedTellsNothing) {
  line("/telemetry/algo-1/loader-7.jsonl", 60, R"("loader":1,"steps":100,"step_s":50)");
  line("/telemetry/algo-1/loader-7.jsonl", 50, R"("loader":1,"steps":200,"step_s":60)");
  line("/metrics/algo-1.jsonl", 50, R"("cpu_s":900)");
  EXPECT_TRUE(group(0)["steps_per_s"].is_null());
  EXPECT_TRUE(group(0)["cpu_percent"].is_null());
}

TEST_F(Live, FeedGroupHasWorkersAndWhatTheDispatcherWants) {
  line(
      "/telemetry/algo-2/feed-9.jsonl", 3,
      R"("samples":100,"cpu_s":1,"sent_bytes":1000,"held_bytes":5,"unsent_bytes":4,"errors":{"unreadable":1})");
  line(
      "/telemetry/algo-2/feed-9.jsonl", 1,
      R"("samples":120,"cpu_s":3,"sent_bytes":5000,"held_bytes":9,"unsent_bytes":8,"errors":{"unreadable":2,"x":1})");
  line("/telemetry/algo-1/loader-7.jsonl", 3, R"("loader":1,"steps":1,"fed":{"received_bytes":0})");
  line("/telemetry/algo-1/loader-7.jsonl", 1,
       R"("loader":1,"steps":2,"fed":{"received_bytes":6000,"hedged":3,"held_bytes":77,"damaged":1,"lost":2},
          "sizing":[{"group":"data","workers":1,"wanted":4,"reason":"the loop waits"},{"group":"other"}])");
  const Json data = group(1);
  EXPECT_NEAR(data["samples_per_s"].as_double(), 10, 1e-6);
  EXPECT_NEAR(data["sent_bytes_per_s"].as_double(), 2000, 1e-2);
  EXPECT_EQ(data["queue_bytes"].as_int(), 9);
  EXPECT_EQ(data["wanted"].as_int(), 4);
  job_.spec.groups[1].spec.most = 2;
  EXPECT_EQ(group(1)["wanted"].as_int(), 2) << "of 1..2";
  job_.spec.groups[1].spec.most = 0;
  EXPECT_EQ(data["running"].as_int(), 1);
  EXPECT_EQ(data["why"].as_string(), "the loop waits");
  EXPECT_EQ(data["errors"].dump(), R"({"unreadable":2})") << "only kinds that are known";
  const Json worker = data["hosts"].as_array()[0]["workers"].as_array()[0];
  EXPECT_EQ(worker["process"].as_string(), "9");
  EXPECT_NEAR(worker["cpu_percent"].as_double(), 200, 1e-6);
  const Json train = group(0);
  EXPECT_NEAR(train["received_bytes_per_s"].as_double(), 3000, 1e-2);
  EXPECT_EQ(train["hedged"].as_int(), 3);
  EXPECT_EQ(train["lost"].as_int(), 2);
  EXPECT_EQ(train["damaged"].as_int(), 1);
}

TEST_F(Live, FilesThatMakeNoSenseAreLeftOut) {
  line("/telemetry/algo-1/loader-x.jsonl", 1, R"("loader":1,"steps":2)");
  line("/telemetry/algo-1/loader-8.jsonl", -1e9, R"("loader":1,"steps":2)");
  line("/telemetry/algo-1/loader-9.jsonl", 2,
       R"("loader":"a","steps":"many","errors":[],"fed":3,"sizing":{})");
  std::ofstream(folder_ + "/telemetry/algo-1/loader-5.jsonl") << std::string(1 << 20, 'x');
  std::filesystem::create_directory(folder_ + "/telemetry/algo-1/loader-6.jsonl");
  EXPECT_TRUE(group(0)["waiting"].is_null());
  EXPECT_EQ(group(0)["errors"].dump(), "{}");
}

TEST_F(Live, PrometheusHasCountersInBaseUnitsOnceEach) {
  line("/metrics/algo-1.jsonl", 1, R"("cpu_s":905.5,"throttled_s":2,"memory_bytes":7)");
  line("/metrics/algo-2.jsonl", 1, R"("cpu_s":1,"throttled_s":2,"memory_bytes":8)");
  line("/telemetry/algo-1/loader-7.jsonl", 1,
       R"("loader":1,"steps":2,"wait_s":0.5,"errors":{"skipped":3},"fed":{"hedged":4})");
  line("/telemetry/algo-2/feed-9.jsonl", 1, R"("samples":120,"cpu_s":3,"unsent_bytes":8)");
  const std::string text = prometheus_text({"1.2", {{"running", 1}}}, {recent()});
  auto has = [&](const std::string& wanted) { return text.find(wanted) != std::string::npos; };
  const std::string a = R"({job="job",group="train",instance="algo-1")",
                    b = R"({job="job",group="data",instance="algo-2")";
  EXPECT_TRUE(
      has("# HELP stoker_instance_cpu_seconds_total CPU time of all processes of the instance.\n"
          "# TYPE stoker_instance_cpu_seconds_total counter\n"
          "stoker_instance_cpu_seconds_total" +
          a + "} 905.5\n" + "stoker_instance_cpu_seconds_total" + b + "} 1\n"))
      << text;
  EXPECT_TRUE(has("stoker_instance_cpu_limit_cores" + a + "} 2\n")) << text;
  EXPECT_TRUE(has("stoker_loader_wait_seconds_total" + a +
                  R"(,process="7",loader="1"} 0.5)"
                  "\n"))
      << text;
  EXPECT_TRUE(has("stoker_loader_hedged_requests_total" + a +
                  R"(,process="7",loader="1"} 4)"
                  "\n"))
      << text;
  EXPECT_TRUE(has("stoker_loader_errors_total" + a +
                  R"(,process="7",loader="1",kind="skipped"} 3)"
                  "\n"))
      << text;
  EXPECT_TRUE(has("stoker_feed_worker_unsent_bytes" + b +
                  R"(,process="9"} 8)"
                  "\n"))
      << text;
  EXPECT_TRUE(has("stoker_jobs{phase=\"running\"} 1\n")) << text;
  EXPECT_EQ(text.back(), '\n');
}

TEST(Prometheus, LabelValuesAreEscaped) {
  Exposition out;
  out.add("a_total", Exposition::Type::kCounter, "A.", {{"x", "q\"b\\n\n"}}, 1);
  out.add("b", Exposition::Type::kGauge, "B.", {}, 0.25);
  out.add("a_total", Exposition::Type::kCounter, "A.", {{"x", "y"}}, 2);
  EXPECT_EQ(out.text(),
            "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"q\\\"b\\\\n\\n\"} 1\na_total{x=\"y\"} 2\n"
            "# HELP b B.\n# TYPE b gauge\nb 0.25\n");
}

}  // namespace
}  // namespace stoker::api
