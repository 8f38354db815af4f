// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace stoker::pipeline {
namespace {

using testing::HasSubstr;

const std::string kHash(64, 'a');

std::string training_plan() {
  return R"({"kind":"native","format":"stoker-plan/1","seed":7,
    "source":{"kind":"image_folder","root":"/data","manifest":")" +
         kHash + R"(","items":1000},
    "ops":[{"op":"decode_rgb"},
           {"op":"random_resized_crop","size":[224,224],"scale":[0.08,1],"ratio":[0.75,1.3333333333333333]},
           {"op":"horizontal_flip","p":0.5},{"op":"to_float","rule":"v2"},
           {"op":"normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]}],
    "output":"float32","libraries":)" +
         native_libraries("13").dump() + "}";
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  auto plan = Plan::parse(text);
  EXPECT_FALSE(plan.ok()) << text;
  return plan.ok() ? "" : plan.error().message;
}

TEST(Plan, HasOneCanonicalForm) {
  auto plan = Plan::parse(training_plan());
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  auto again = Plan::parse(plan->json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->json(), plan->json());
  // Written otherwise, the same plan: 1 for 1.0, another order of fields, spaces.
  auto written = Plan::parse(with(training_plan(), "[0.08,1]", "[ 8e-2 , 1.0 ]"));
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(written->hash(), plan->hash());
  EXPECT_EQ(written->native(), plan->native());
}

TEST(Plan, EveryFieldButTheFoldersPathCountsInTheHash) {
  std::string hash = Plan::parse(training_plan())->hash();
  EXPECT_EQ(hash, sha256_hex(as_bytes(with(Plan::parse(training_plan())->json(), "/data", ""))));
  EXPECT_EQ(hash, Plan::parse(with(training_plan(), "/data", "/opt/ml/input/data/photos"))->hash());
  for (auto [from, to] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\"seed\":7", "\"seed\":8"},
           {"\"items\":1000", "\"items\":1001"},
           {"0.08", "0.081"},
           {"\"p\":0.5", "\"p\":0.25"},
           {"\"rule\":\"v2\"", "\"rule\":\"v1\""},
           {"0.225", "0.2250001"},
           {"\"pillow\":\"13\"", "\"pillow\":\"12\""}}) {
    auto other = Plan::parse(with(training_plan(), from, to));
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_NE(other->hash(), hash) << from;
  }
}

TEST(Plan, RefusesByName) {
  std::string plan = training_plan();
  EXPECT_THAT(refusal(with(plan, "\"horizontal_flip\"", "\"sharpen\"")),
              HasSubstr("ops[2]: this stoker has no op \"sharpen\""));
  EXPECT_THAT(refusal(with(plan, "\"p\":0.5", "\"p\":0.5,\"axis\":1")), HasSubstr("ops[2].axis"));
  EXPECT_THAT(refusal(with(plan, "\"seed\":7", "\"seed\":7,\"sede\":7")), HasSubstr("\"sede\""));
  EXPECT_THAT(refusal(with(plan, "\"seed\":7", "\"seed\":-7")), HasSubstr("seed"));
  EXPECT_THAT(refusal(with(plan, "\"seed\":7", "\"seed\":\"7\"")),
              HasSubstr("\"seed\" must be an integer, found a string"));
  EXPECT_THAT(refusal(with(plan, "plan/1", "plan/9")), HasSubstr("stoker-plan/9"));
  EXPECT_THAT(refusal(with(plan, "\"p\":0.5", "\"p\":1.5")), HasSubstr("ops[2].p"));
  EXPECT_THAT(refusal(with(plan, "[224,224]", "[224,0]")), HasSubstr("ops[1].size"));
  EXPECT_THAT(refusal(with(plan, "[224,224]", "[60000,60000]")), HasSubstr("ops[1].size"));
  EXPECT_THAT(refusal(with(plan, "0.225]", "0]")), HasSubstr("ops[4].std"));
  EXPECT_THAT(refusal(with(plan, "[0.08,1]", "[1,0.08]")), HasSubstr("ops[1].scale"));
  EXPECT_THAT(refusal(with(plan, "\"float32\"", "\"uint8\"")), HasSubstr("output must be \"float32\""));
  EXPECT_THAT(refusal(with(plan, "/data", "data")), HasSubstr("source.root"));
  EXPECT_THAT(refusal(with(plan, kHash, "xyz")), HasSubstr("source.manifest"));
  EXPECT_THAT(refusal(with(plan, "\"image_folder\"", "\"tar\"")), HasSubstr("\"tar\""));
  EXPECT_THAT(refusal("[1]"), HasSubstr("plan: must be an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
}

TEST(Plan, RefusesOpsWithoutAMeaning) {
  std::string plan = training_plan();
  EXPECT_THAT(refusal(with(plan, R"({"op":"decode_rgb"},)", "")), HasSubstr("ops[0] must be decode_rgb"));
  EXPECT_THAT(refusal(with(plan, R"({"op":"horizontal_flip","p":0.5})", R"({"op":"decode_rgb"})")),
              HasSubstr("ops[2]: decode_rgb may not stand here"));
  // Size left open: the loader takes such a pipeline to Python.
  std::string open = with(
      plan,
      R"("op":"random_resized_crop","size":[224,224],"scale":[0.08,1],"ratio":[0.75,1.3333333333333333])",
      R"("op":"resize","size":256)");
  EXPECT_EQ(Plan::parse(open).error().code, Code::kUnsupported);
  EXPECT_THAT(refusal(open), HasSubstr("leave the picture's size open"));
  EXPECT_TRUE(
      Plan::parse(with(open, "\"size\":256}", "\"size\":256},{\"op\":\"center_crop\",\"size\":[224,224]}"))
          .ok());
  EXPECT_TRUE(Plan::parse(with(open, "\"size\":256}", "\"size\":[256,200]}")).ok());
}

std::string with_ops(const std::string& ops) {
  return with(training_plan(), R"({"op":"horizontal_flip","p":0.5},{"op":"to_float","rule":"v2"},)",
              ops.empty() ? R"({"op":"to_float","rule":"v2"},)" : ops + R"(,{"op":"to_float","rule":"v2"},)");
}

TEST(Plan, WritesNoDefaultsOut) {
  auto shorter = Plan::parse(with_ops(R"({"op":"resize","size":[8,9]},{"op":"random_crop","size":[8,8]})"));
  auto longer = Plan::parse(
      with_ops(R"({"op":"resize","size":[8,9],"filter":"bilinear","arithmetic":"pillow","max_size":0},
                  {"op":"random_crop","size":[8,8],"padding":[0,0,0,0],"pad_if_needed":false,"fill":[0,0,0]})"));
  ASSERT_TRUE(shorter.ok()) << shorter.error().message;
  ASSERT_TRUE(longer.ok()) << longer.error().message;
  EXPECT_EQ(shorter->json(), longer->json());
}

TEST(Plan, ChecksWhatIsInContainers) {
  auto inside = [](const std::string& op) {
    return with_ops(R"({"op":"random_apply","p":0.5,"ops":[)" + op + "]}");
  };
  EXPECT_TRUE(Plan::parse(inside(R"({"op":"adjust","what":"invert"})")).ok());
  EXPECT_THAT(refusal(inside(R"({"op":"adjust","what":"invert","value":1})")),
              HasSubstr("ops[2].ops[0].value"));
  EXPECT_THAT(refusal(inside(R"({"op":"adjust","what":"posterize","value":9})")),
              HasSubstr("ops[2].ops[0].value"));
  EXPECT_THAT(refusal(inside(R"({"op":"to_float","rule":"v1"})")), HasSubstr("to_float"));
  EXPECT_THAT(refusal(inside(R"({"op":"center_crop","size":[4,4]})")), HasSubstr("size open"));
  EXPECT_THAT(refusal(inside(R"({"op":"grayscale","channels":1})")), HasSubstr("different kinds"));
  std::string deep = R"({"op":"adjust","what":"invert"})";
  for (int i = 0; i < 9; ++i) deep = R"({"op":"random_apply","p":1,"ops":[)" + deep + "]}";
  EXPECT_THAT(refusal(with_ops(deep)), HasSubstr("containers in each other"));
  EXPECT_THAT(refusal(with_ops(R"({"op":"random_choice","branches":[[]],"weights":[0]})")),
              HasSubstr("weights"));
  EXPECT_THAT(refusal(with_ops(R"({"op":"gaussian_blur","kernel":[3,4],"sigma":[1,2]})")),
              HasSubstr("even side"));
}

TEST(Plan, HoldsPythonCodeByIdentityOnly) {
  PythonPlan body{"photos.Photos", "", "2", "torch.utils.data.default_collate", 500};
  auto plan = Plan::make_python(body, 3, Json().set("python", "3.11"));
  ASSERT_TRUE(plan.ok());
  auto again = Plan::parse(plan->json());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_FALSE(again->is_native());
  EXPECT_EQ(again->python(), body);
  EXPECT_EQ(again->hash(), plan->hash());
  EXPECT_EQ(again->items(), 500u);
  EXPECT_EQ(again->seed(), 3u);
}

TEST(Plan, ChecksLibraries) {
  auto plan = Plan::parse(training_plan());
  EXPECT_TRUE(check_libraries(*plan).ok());
  auto other = Plan::parse(with(training_plan(), "\"stoker\":\"" STOKER_VERSION "\"", "\"stoker\":\"99\""));
  auto refused = check_libraries(*other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("stoker 99 (here " STOKER_VERSION ")"));
  EXPECT_FALSE(
      check_libraries(*Plan::parse(with(training_plan(), "\"pillow\":\"13\"", "\"pillow\":\"14\""))).ok());
  EXPECT_FALSE(check_libraries(*Plan::parse(with(training_plan(), "\"pillow\":\"13\"", "\"x\":\"1\""))).ok());
}

}  // namespace
}  // namespace stoker::pipeline
