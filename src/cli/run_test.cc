// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/figures_text.h"
#include "cli/text.h"

namespace stoker::cli {
namespace {

TEST(Run, RequestHasAbsolutePathsAndOnlyWhatWasSaid) {
  RunArguments arguments;
  arguments.script = "x/../train.py";
  arguments.inputs = {"photos=some/"};
  arguments.environment = {"A=b=c", "EMPTY="};
  arguments.hyperparameters = {"lr=0.1", "name=a=b"};
  arguments.arguments = {"--epochs", "2"};
  arguments.python = "/bin/sh";
  auto request = run_request(arguments);
  ASSERT_TRUE(request.ok()) << request.error().message;
  std::string here = std::filesystem::current_path();
  EXPECT_EQ((*request)["script"].as_string(), here + "/train.py");
  EXPECT_EQ((*request)["inputs"].as_array()[0]["folder"].as_string(), here + "/some");
  EXPECT_EQ((*request)["environment"]["A"].as_string(), "b=c");
  EXPECT_EQ((*request)["environment"]["EMPTY"].as_string(), "");
  EXPECT_EQ((*request)["arguments"].as_array().size(), 2u);
  EXPECT_EQ((*request)["hyperparameters"].dump(), R"({"lr":"0.1","name":"a=b"})");
  EXPECT_FALSE(request->has("cpu_scale"));
  EXPECT_FALSE(request->has("name"));

  arguments.inputs = {"photos"};
  EXPECT_FALSE(run_request(arguments).ok());
  arguments.inputs = {};
  arguments.hyperparameters = {"lr=1", "lr=2"};
  EXPECT_EQ(run_request(arguments).error().code, Code::kInvalid);
  arguments.hyperparameters = {};
  EXPECT_FALSE(run_request(arguments)->has("hyperparameters"));
  arguments.python = "no-such-python";
  EXPECT_EQ(run_request(arguments).error().code, Code::kNotFound);
}

TEST(Run, EntriesOfGroupsAreTakenApartAsAShellDoes) {
  RunArguments arguments;
  arguments.script = "train.py";
  arguments.python = "/bin/sh";
  arguments.entries = {R"(sims=work.py -n 4 "two words" 'a\b' c\ d '' "e\d\"")"};
  auto request = run_request(arguments);
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ((*request)["entries"]["sims"].dump(),
            R"(["work.py","-n","4","two words","a\\b","c d","","e\\d\""])");
  for (const char* wrong : {"sims", "=work.py", "sims='work.py"}) {
    arguments.entries = {wrong};
    EXPECT_EQ(run_request(arguments).error().code, Code::kInvalid) << wrong;
  }
  arguments.entries = {"sims=a", "sims=b"};
  EXPECT_EQ(run_request(arguments).error().code, Code::kInvalid);
}

TEST(Text, Units) {
  EXPECT_EQ(duration_text(1.25), "1.2 s");
  EXPECT_EQ(duration_text(61), "61 s");
  EXPECT_EQ(duration_text(600), "10 min");
  EXPECT_EQ(money_text(Json()), "-");
  EXPECT_EQ(money_text(Json(0.01234)), "$0.0123");
  EXPECT_EQ(money_text(Json(5.661)), "$5.66");
  EXPECT_EQ(size_text(999), "999 B");
  EXPECT_EQ(size_text(35'000), "35 kB");
  EXPECT_EQ(size_text(312'000'000), "312 MB");
  EXPECT_EQ(size_text(1'500'000'000), "1.5 GB");
}

TEST(Text, CodeLineSaysHowMuchGoesAlong) {
  Json code, submitted, job;
  code.set("files", 1).set("bytes", 35'000).set("left_out", Json::Array{});
  job.set("name", "a");
  submitted.set("job", job).set("code", code);
  EXPECT_TRUE(submitted_text(submitted).ends_with("stoker: code: 1 file, 35 kB\n"));
  submitted.set("code", code.set("files", 3).set("left_out", Json::Array{"data/"}));
  EXPECT_TRUE(submitted_text(submitted).ends_with("stoker: code: 3 files, 35 kB; left out: data/\n"));
}

TEST(Text, ScaleIsAnnouncedWhereItScalesSomething) {
  auto text_of = [](bool first_is_here, double scale) {
    auto group = [](bool here) {
      Json type, one;
      type.set("name", here ? "here" : "ml.c5.xlarge").set("here", here);
      return one.set("name", "a").set("count", 1).set("type", type);
    };
    Json spec, job, submitted;
    spec.set("cpu_scale", scale).set("groups", Json::Array{group(first_is_here), group(true)});
    return submitted_text(submitted.set("job", job.set("name", "x").set("spec", spec)));
  };
  EXPECT_NE(text_of(false, 0.04).find(" · cpu scale 0.04\n"), std::string::npos);
  EXPECT_EQ(text_of(true, 0.04).find(" · cpu scale"), std::string::npos);
  EXPECT_NE(text_of(true, 0.04).find("stoker: cpu scale 0.04 changes nothing: `here` is"), std::string::npos);
  EXPECT_EQ(text_of(true, 1).find("scale"), std::string::npos);
}

TEST(Text, HelpersOfAFedJobAreNotAddedToThoseThereAre) {
  Json advice, helpers;
  helpers.set("kind", "helpers").set("count", 2).set("instance_type", "ml.c5.xlarge");
  advice.set("summary", "x").set("candidates", Json::Array{helpers});
  EXPECT_NE(advice_text(advice).find("add: 2 ml.c5.xlarge"), std::string::npos);
  advice.set("feed", Json::Object{});
  EXPECT_NE(advice_text(advice).find("helpers: 2 ml.c5.xlarge"), std::string::npos);
}

TEST(Text, ComparisonSaysWhatTheBoundOfEachJobCounts) {
  auto job = [](const char* name, const char* covers) {
    Json json;
    return json.set("job", name).set("bound_covers", covers).set("bound_ms", Json());
  };
  Json two, same;
  two.set("jobs", Json::Array{job("a", "its own"), job("b", "its own; those of data"), job("c", "its own")});
  const std::string text = comparison_text(two);
  EXPECT_NE(text.find("counted: of a, c: its own, and of b: its own; those of data.\n"), std::string::npos)
      << text;
  same.set("jobs", Json::Array{job("a", "its own"), job("b", "its own")});
  EXPECT_NE(comparison_text(same).find("counted: its own.\n"), std::string::npos) << comparison_text(same);
}

TEST(Text, TableCutsALongNoteBetweenCharacters) {
  Json job, state, jobs;
  std::string reason;
  for (int i = 0; i < 100; ++i) reason += "ä";
  state.set("failure_reason", "x" + reason);
  jobs.set("jobs", Json::Array{job.set("name", "a").set("state", state)});
  const std::string table = jobs_table(jobs, 0, true);
  EXPECT_TRUE(table.ends_with("xääääääääääääääääääääääääääääääääääääääääääää…\n")) << table;
  EXPECT_TRUE(jobs_table(jobs, 0, false).ends_with("x" + reason + "\n")) << "a file takes all of it";
}

}  // namespace
}  // namespace stoker::cli
