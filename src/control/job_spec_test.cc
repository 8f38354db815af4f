// SPDX-License-Identifier: Apache-2.0
#include "control/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/test_folder.h"
#include "control/code_copy.h"
#include "control/network.h"

namespace stoker::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class SpecTest : public testing::Test {
 protected:
  void SetUp() override {
    touch("code/train.py", "print()");
    fs::create_directories(folder_ + "/photos");
  }
  void touch(const std::string& path, const std::string& text = "") {
    fs::create_directories(fs::path(folder_ + "/" + path).parent_path());
    std::ofstream(folder_ + "/" + path) << text;
  }
  Json request() {
    Json json;
    json.set("script", folder_ + "/code/train.py").set("python", "/bin/sh");
    return json;
  }
  Result<JobSpec> parse(const Json& json) {
    return parse_request(json, *Catalogue::built_in(), {2, int64_t{16} << 30, 0, ""}, {0.5});
  }
  TestFolder own_;
  const std::string folder_ = own_.path();
};

TEST_F(SpecTest, DefaultsAreOneInstanceOfThisMachine) {
  auto spec = parse(request());
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_EQ(spec->groups.size(), 1u);
  EXPECT_EQ(spec->groups[0].spec, (GroupSpec{"train", 1, "here", agent::Role::kNone, {}}));
  EXPECT_EQ(spec->cpu_scale, 0.5);
  EXPECT_EQ(spec->grace_s, 120);
  EXPECT_EQ(spec->script, "train.py");
  EXPECT_EQ(spec->requirements, "");
  EXPECT_EQ(JobSpec::from_json(spec->to_json())->to_json().dump(), spec->to_json().dump());
}

TEST_F(SpecTest, RequirementsBesideTheScriptAreTaken) {
  touch("code/requirements.txt", "numpy");
  EXPECT_EQ(parse(request())->requirements, "requirements.txt");
}

TEST_F(SpecTest, HyperparametersAreArgumentsAsTheToolkitGivesThem) {
  Json values = Json::Object{
      {"epochs", "2"}, {"b", "8"},       {"amp", "true"},      {"name", "\"res net\""},
      {"lr", "1e-3"},  {"none", "null"}, {"sagemaker_x", "1"}, {"sizes", "{\"a\": 1, \"b\": \"c\"}"}};
  auto spec = parse(request().set("hyperparameters", values).set("arguments", Json::Array{"--own"}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->script_arguments(),
            (std::vector<std::string>{"--amp", "True", "-b", "8", "--epochs", "2", "--lr", "1e-3", "--name",
                                      "res net", "--none", "None", "--sizes", "a=1,b=c", "--own"}));
}

TEST_F(SpecTest, MistakesAreNamed) {
  touch("code/tool", "");
  touch("elsewhere.txt", "");
  Json::Object many_variables;
  for (int i = 0; i < 10; i++) many_variables["A" + std::to_string(i)] = std::string(100'000, 'x');
  const std::tuple<const char*, Json, Code, const char*> cases[] = {
      {"script", folder_ + "/code/no.py", Code::kNotFound, "there is no script"},
      {"script", folder_ + "/code", Code::kNotFound, "is a folder"},
      {"script", "train.py", Code::kInvalid, "absolute path"},
      {"script", folder_ + "/code/tool", Code::kDenied, "chmod +x"},
      {"python", "/no/python", Code::kNotFound, "--python"},
      {"name", "no_underscores", Code::kInvalid, "job name"},
      {"name", "last", Code::kInvalid, "job name"},
      {"name", std::string(64, 'a'), Code::kInvalid, "job name"},
      {"cpu_scale", 0.0, Code::kInvalid, "cpu_scale"},
      {"grace_s", -1, Code::kInvalid, "grace"},
      {"grace_s", std::nan(""), Code::kInvalid, "is not a number from 0 to 3600 (seconds)"},
      {"grace_s", "soon", Code::kInvalid, "leave it out for the default"},
      {"cpu_scale", HUGE_VAL, Code::kInvalid, "is not a number from 0.001 to 16 (cores per vCPU)"},
      {"groups", Json::Array{"train=1xnope"}, Code::kInvalid, "no instance type 'nope'"},
      {"groups", "train=1xhere", Code::kInvalid, "list of texts"},
      {"requirements", folder_ + "/none.txt", Code::kNotFound, "requirements"},
      {"requirements", folder_ + "/elsewhere.txt", Code::kInvalid, "outside the code folder"},
      {"group", Json::Array{"train=1xhere"}, Code::kInvalid, "no field 'group'; it may have arguments, "},
      {"inputs", 5, Code::kInvalid, "inputs must be a list, not 5"},
      {"inputs", Json::Array{"a"}, Code::kInvalid, "each of inputs must be an object"},
      {"inputs", Json::Array{Json::Object{{"name", "a"}, {"folder", "/"}, {"group", Json::Array{"train"}}}},
       Code::kInvalid, "an input has no field 'group'; it may have folder, groups, name"},
      {"fewer_gpus", "yes", Code::kInvalid, "true or false, not \"yes\""},
      {"name", 5, Code::kInvalid, "name must be a text"},
      {"requirements", true, Code::kInvalid, "requirements must be a text"},
      {"arguments", Json::Array{std::string("a\0b", 3)}, Code::kInvalid, "arguments holds a zero byte"},
      {"hyperparameters", Json::Object{{"a", std::string("\0", 1)}}, Code::kInvalid, "zero byte"},
      {"script", folder_ + "/code/train.py" + std::string("\0x", 2), Code::kInvalid, "zero byte"},
      {"inputs",
       Json::Array{Json(Json::Object{{"name", "p"}, {"folder", folder_ + "/code" + std::string("\0", 1)}})},
       Code::kInvalid, "zero byte"},
      {"environment", Json::Object{{"A=B", "x"}}, Code::kInvalid, "no name of an environment variable"},
      {"environment", Json::Object{{"A", std::string(1 << 17, 'x')}}, Code::kInvalid,
       "environment variable A: "},
      {"environment", many_variables, Code::kInvalid, "the environment variables: 1"},
      {"arguments", Json::Array{std::string(65'000, 'x'), std::string(66'000, 'x')}, Code::kInvalid,
       "the arguments (SM_USER_ARGS): 131007 bytes, of which at most 131000 reach a program; put them in a "
       "file"},
      {"hyperparameters", Json::Object{{"a", std::string(100'000, 'x')}}, Code::kInvalid,
       "hyperparameters: "},
      {"hyperparameters", Json::Object{{"a=b", "x"}}, Code::kInvalid, "no name of a hyperparameter"},
      {"inputs", Json::Array{Json(Json::Object{{"name", "p"}, {"folder", folder_ + "/none"}})},
       Code::kNotFound, "there is no folder"},
      {"inputs", Json::Array{Json(Json::Object{{"name", "p"}, {"folder", folder_ + "/code/train.py"}})},
       Code::kInvalid, "is a file, and an input is a folder"},
      {"inputs", Json::Array{Json(Json::Object{{"name", "../p"}, {"folder", folder_}})}, Code::kInvalid,
       "name"},
      {"inputs", Json::Array{Json(Json::Object{{"name", ".p"}, {"folder", folder_}})}, Code::kInvalid,
       "the first a letter"},
  };
  for (const auto& [key, value, code, expected] : cases) {
    auto spec = parse(request().set(key, value));
    ASSERT_FALSE(spec.ok()) << key << " " << value.dump();
    EXPECT_EQ(spec.error().code, code) << spec.error().message;
    EXPECT_THAT(spec.error().message, HasSubstr(expected));
  }
}

TEST_F(SpecTest, AGroupMayRunSomethingElse) {
  touch("code/sub/work.py");
  touch("outside.py");
  touch("code/notes.txt");
  auto with = [&](const char* entries) {
    Json json = request();
    json.set("groups", Json(Json::Array{"train=1xhere", "sims=1xhere:feed", "data=1xhere:feed"}));
    return parse(json.set("entries", *Json::parse(entries)));
  };
  auto spec = with(R"({"sims": ["sub/../sub/work.py", "-n", "4"]})");
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->groups[1].entry, (agent::Entry{"sub/work.py", {}, {"-n", "4"}}));
  EXPECT_FALSE(spec->groups[1].is_loader_feed());
  EXPECT_TRUE(spec->groups[2].is_loader_feed());
  EXPECT_EQ(JobSpec::from_json(spec->to_json())->groups[1].entry, spec->groups[1].entry);
  std::string whole = R"({"sims": [")" + folder_ + R"(/code/sub/work.py"]})";
  EXPECT_EQ(with(whole.c_str())->groups[1].entry, (agent::Entry{"sub/work.py", {}, {}}));
  EXPECT_EQ(with(R"({"sims": ["/usr/bin/env", "x"]})")->groups[1].entry,
            (agent::Entry{{}, {"/usr/bin/env", "x"}, {}}));
  EXPECT_EQ(with(R"({"sims": ["sleep", "9"]})")->groups[1].entry, (agent::Entry{{}, {"sleep", "9"}, {}}));

  const std::string long_words = R"({"sims":["prog",")" + std::string(131'000, 'x') + R"("]})";
  EXPECT_THAT(with(long_words.c_str()).error().message, HasSubstr("the entry of group 'sims': 131"));
  auto refused = [&](const char* entries) { return with(entries).error().message; };
  EXPECT_THAT(refused(R"({"sim": ["sub/work.py"]})"), HasSubstr("no such group"));
  EXPECT_THAT(refused(R"({"sims": []})"), HasSubstr("nothing to run"));
  EXPECT_THAT(refused(R"({"sims": ["wrok.py"]})"), HasSubstr("there is no 'wrok.py'"));
  EXPECT_THAT(refused(R"({"sims": ["../outside.py"]})"), HasSubstr("outside the code folder"));
  EXPECT_THAT(refused(R"({"sims": ["notes.txt"]})"), HasSubstr("not executable"));
  EXPECT_THAT(refused(R"({"sims": "work.py"})"), HasSubstr("list of texts"));
}

TEST_F(SpecTest, FoldersHaveOneSpelling) {
  auto spec = parse(request().set(
      "inputs", Json::Array{Json(Json::Object{{"name", "p"}, {"folder", folder_ + "/code/../code/./"}})}));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->inputs[0].folder, folder_ + "/code");
}

TEST(JobName, FromScriptAndTime) {
  EXPECT_EQ(make_job_name("/x/train.py", 1795971605000, 0xab12), "train-20261129-170005-ab12");
  EXPECT_EQ(make_job_name("/x/_my model (2).py", 1795971605000, 1), "my-model-2-20261129-170005-0001");
  EXPECT_TRUE(check_job_name(make_job_name("/x/" + std::string(200, 'a') + ".py", 1795971605000, 1)).ok());
  EXPECT_TRUE(check_job_name(make_job_name("/x/ü.py", 1795971605000, 1)).ok());
}

TEST_F(SpecTest, CodeIsCopiedWithoutWhatIsNotCode) {
  for (const char* path : {"code/lib/a.py", "code/.git/config", "code/venv/bin/python", "code/data/1.jpg",
                           "code/datasets/__init__.py", "code/lib/__pycache__/a.pyc", "code/photos/1.jpg"})
    touch(path, "x");
  fs::create_symlink("lib/a.py", folder_ + "/code/link.py");
  fs::permissions(folder_ + "/code/train.py", fs::perms::owner_all);
  fs::create_directories(folder_ + "/to");
  auto copied = copy_code(folder_ + "/code", folder_ + "/to", {folder_ + "/code/photos"});
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_THAT(copied->left_out, ElementsAre(".git/", "data/", "lib/__pycache__/", "photos/", "venv/"));
  EXPECT_EQ(copied->files, 4);
  EXPECT_TRUE(fs::exists(folder_ + "/to/datasets/__init__.py"));
  EXPECT_EQ(fs::read_symlink(folder_ + "/to/link.py"), "lib/a.py");
  EXPECT_EQ(::access((folder_ + "/to/train.py").c_str(), X_OK), 0);
}

TEST_F(SpecTest, FilesAndPackagesThatAreNamedLikeEnvironmentsAreCode) {
  for (const char* path : {"code/env", "code/logs", "code/lib/venv/a.py", "code/lib/env/bin/python",
                           "code/mine/pyvenv.cfg", "code/conda/conda-meta/history", "code/.env"})
    touch(path, "x");
  fs::create_directories(folder_ + "/to");
  auto copied = copy_code(folder_ + "/code", folder_ + "/to", {});
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_THAT(copied->left_out, ElementsAre(".env", "conda/", "lib/env/", "mine/"));
  for (const char* path : {"to/env", "to/logs", "to/lib/venv/a.py", "to/train.py"})
    EXPECT_TRUE(fs::exists(folder_ + "/" + path)) << path;
}

TEST_F(SpecTest, ProgramAmongManyGoesAlone) {
  touch("usr/bin/echo-1", "program");
  touch("usr/bin/other", "program");
  touch("usr/bin/tool.py", "print()");
  fs::permissions(folder_ + "/usr/bin/echo-1", fs::perms::owner_all);
  fs::create_symlink("echo-1", folder_ + "/usr/bin/echo");
  auto spec = parse(request().set("script", folder_ + "/usr/bin/echo"));
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_TRUE(goes_alone(*spec));
  fs::create_directories(folder_ + "/to");
  auto copied = copy_program(spec->code_folder, spec->script, folder_ + "/to");
  ASSERT_TRUE(copied.ok()) << copied.error().message;
  EXPECT_EQ(copied->files, 1);
  EXPECT_EQ(copied->bytes, 7);
  EXPECT_THAT(copied->left_out, ElementsAre("the rest of " + folder_ + "/usr/bin/"));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder_ + "/to/echo")));
  EXPECT_EQ(::access((folder_ + "/to/echo").c_str(), X_OK), 0);
  EXPECT_FALSE(fs::exists(folder_ + "/to/other"));
  EXPECT_FALSE(goes_alone(*parse(request().set("script", folder_ + "/usr/bin/tool.py"))));
  EXPECT_FALSE(goes_alone(*parse(request())));
}

TEST_F(SpecTest, CodeThatIsTooLargeIsRefusedWithTheReason) {
  touch("code/blob/a.bin", std::string(1000, 'x'));
  fs::create_directories(folder_ + "/to");
  auto copied = copy_code(folder_ + "/code", folder_ + "/to", {}, {10, 500});
  ASSERT_FALSE(copied.ok());
  EXPECT_THAT(copied.error().message, HasSubstr("most of it in 'blob'"));
}

TEST(Network, SubnetsAreNotGivenTwice) {
  std::vector<std::string> taken;
  for (int i = 0; i < 20; ++i) {
    std::string subnet = pick_subnet(7, taken);
    EXPECT_EQ(std::count(taken.begin(), taken.end(), subnet), 0);
    EXPECT_EQ(subnet.substr(0, 3), "10.");
    taken.push_back(subnet);
  }
}

}  // namespace
}  // namespace stoker::control
