// SPDX-License-Identifier: Apache-2.0
#include "control/group_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker::control {
namespace {

using testing::HasSubstr;

TEST(GroupSpec, PartsOfWhatIsTyped) {
  using agent::Role;
  const std::pair<const char*, GroupSpec> cases[] = {
      {"train=1xml.p3.2xlarge", {"train", 1, "ml.p3.2xlarge", Role::kNone, {}}},
      {"train=1xhere", {"train", 1, "here", Role::kNone, {}}},
      {"data=2xml.c5.9xlarge:feed", {"data", 2, "ml.c5.9xlarge", Role::kFeed, {}}},
      {"data=16xc5.large:feed@train,eval", {"data", 16, "c5.large", Role::kFeed, {"train", "eval"}}},
      {"sim=1xhere:aux@train", {"sim", 1, "here", Role::kAux, {"train"}}},
      {"t=1xcpus=8,gpus=1,price=0.4", {"t", 1, "cpus=8,gpus=1,price=0.4", Role::kNone, {}}},
      {"d=3xcpus=8,price=0.4:feed@t,u,t", {"d", 3, "cpus=8,price=0.4", Role::kFeed, {"t", "u"}}},
      {"data=1..4xml.c5.9xlarge:feed", {"data", 1, "ml.c5.9xlarge", Role::kFeed, {}, 4}},
      {"data=2..2xhere:feed", {"data", 2, "here", Role::kFeed, {}}},
  };
  for (const auto& [text, expected] : cases) {
    auto group = parse_group(text);
    ASSERT_TRUE(group.ok()) << group.error().message;
    EXPECT_EQ(*group, expected) << text;
  }
}

TEST(GroupSpec, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no '=' after the name"},
      {"train", "no '=' after the name"},
      {"=1xhere", "the name '' must be"},
      {"a b=1xhere", "the name 'a b' must be"},
      {"a=xhere", "no count"},
      {"a=here", "no count"},
      {"a=0xhere", "count must be 1 to"},
      {"a=-1xhere", "count must be 1 to"},
      {"a=65xhere", "count must be 1 to"},
      {"a=99999999999999999999xhere", "count must be 1 to"},
      {"a=1", "no 'x' between"},
      {"a=1..xhere:feed", "after '1..' comes the most"},
      {"a=3..2xhere:feed", "the most instances that it may have, 3 to 64"},
      {"a=1..65xhere:feed", "1 to 64"},
      {"a=1...4xhere:feed", "after '1..' comes the most"},
      {"a=0..4xhere:feed", "count must be 1 to"},
      {"a=1here", "no 'x' between"},
      {"a=1x", "no instance type"},
      {"a=1x:feed", "no instance type"},
      {"a=1xhere:", "the role '' is not"},
      {"a=1xhere:fed", "the role 'fed' is not"},
      {"a=1xhere:feed@", "after '@' come"},
      {"a=1xhere:feed@x,", "after '@' come"},
  };
  for (const auto& [text, expected] : cases) {
    auto group = parse_group(text);
    ASSERT_FALSE(group.ok()) << text;
    EXPECT_EQ(group.error().code, Code::kInvalid);
    EXPECT_THAT(group.error().message, HasSubstr(expected)) << text;
    EXPECT_THAT(group.error().message, HasSubstr("NAME=COUNTxTYPE")) << text;
  }
}

std::vector<GroupSpec> groups(std::initializer_list<const char*> texts) {
  std::vector<GroupSpec> list;
  for (const char* text : texts) list.push_back(*parse_group(text));
  return list;
}

TEST(GroupSpec, HelpersServeEveryGroupWithoutARoleUnlessTheyNameSome) {
  auto list = groups({"a=1xhere", "d=1xhere:feed", "b=1xhere", "e=1xhere:aux@b"});
  ASSERT_TRUE(check_groups(list).ok());
  EXPECT_EQ(list[1].serves, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(list[3].serves, (std::vector<std::string>{"b"}));
}

TEST(GroupSpec, RulesOverAllGroups) {
  const std::pair<std::vector<GroupSpec>, const char*> cases[] = {
      {groups({"a=1xhere", "a=1xhere"}), "two groups are named 'a'"},
      {groups({"a=1xhere:feed"}), "every group has a role"},
      {groups({"a=1xhere", "d=1xhere:feed@x"}), "which is no group"},
      {groups({"a=1xhere", "d=1xhere:feed@e", "e=1xhere:aux"}), "itself a helper"},
      {groups({"a=64xhere", "d=1xhere:feed"}), "at most 64"},
  };
  for (auto [list, expected] : cases) {
    Status checked = check_groups(list);
    ASSERT_FALSE(checked.ok()) << expected;
    EXPECT_THAT(checked.error().message, HasSubstr(expected));
  }
}

TEST(GroupSpec, OnlyAFeedGroupOfOneGroupMayGrow) {
  auto refusal = [](std::initializer_list<const char*> texts) {
    auto all = groups(texts);
    Status checked = check_groups(all);
    return checked.ok() ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal({"train=1xhere", "data=1..4xhere:feed"}), "");
  EXPECT_EQ(refusal({"train=1xhere", "eval=1xhere", "data=1..4xhere:feed@train", "more=1..4xhere:feed@eval"}),
            "");
  EXPECT_THAT(refusal({"train=1..2xhere"}), HasSubstr("only a feed group can grow and shrink"));
  EXPECT_THAT(refusal({"train=1xhere", "sum=1..2xhere:aux"}), HasSubstr("only a feed group can grow"));
  EXPECT_THAT(refusal({"train=1xhere", "eval=1xhere", "data=1..4xhere:feed"}), HasSubstr("serves 2 groups"));
  EXPECT_THAT(refusal({"train=1xhere", "data=1..4xhere:feed", "more=1..2xhere:feed"}),
              HasSubstr("so is 'more', which serves the same group"));
  EXPECT_THAT(refusal({"train=1xhere", "data=1..64xhere:feed"}), HasSubstr("65 instances in all"));
}

}  // namespace
}  // namespace stoker::control
