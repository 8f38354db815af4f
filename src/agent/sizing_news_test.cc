// SPDX-License-Identifier: Apache-2.0
#include "agent/sizing_news.h"

#include <gtest/gtest.h>

namespace stoker::agent {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class SizingNewsTest : public testing::Test {
 protected:
  SizingNewsTest() {
    assignment_.groups = {{"train", "here", Role::kNone, {"algo-1"}, {}},
                          {"data", "here", Role::kFeed, {"algo-2"}, {"train"}}};
  }
  static std::string wants(int64_t wanted, const std::string& reason = "",
                           const std::string& group = "data") {
    return R"({"group":")" + group + R"(","wanted":)" + std::to_string(wanted) + R"(,"reason":")" + reason +
           R"("})";
  }
  // The numbers that are news.
  std::vector<int64_t> look(const std::string& text, double at_s) {
    std::vector<int64_t> numbers;
    for (const WantedSize& one : news_.look(text, assignment_, static_cast<int64_t>(at_s * kSecond)))
      numbers.push_back(one.wanted);
    return numbers;
  }
  using Numbers = std::vector<int64_t>;

  Assignment assignment_;
  SizingNews news_;
};

TEST_F(SizingNewsTest, EachGroupIsToldOnceWithWhatItsLastEntrySays) {
  EXPECT_EQ(look("[" + wants(3) + "," + wants(5) + "," + wants(4) + "]", 1), Numbers{4});
  EXPECT_EQ(look("[" + wants(4, "another reason") + "]", 3), Numbers{}) << "the same number";
  EXPECT_EQ(look("[" + wants(9, "", "train") + "," + wants(9, "", "nobody") + "]", 5), Numbers{});
}

TEST_F(SizingNewsTest, WhatComesTooSoonComesLaterAndWhatChangedBackNever) {
  EXPECT_EQ(look("[" + wants(3) + "]", 1), Numbers{3});
  EXPECT_EQ(look("[" + wants(4) + "]", 1.5), Numbers{});
  EXPECT_EQ(look("[" + wants(4) + "]", 2), Numbers{4});
  EXPECT_EQ(look("[" + wants(5) + "]", 2.5), Numbers{});
  EXPECT_EQ(look("[" + wants(4) + "]", 3), Numbers{});
}

TEST_F(SizingNewsTest, LongArrayAndNonsenseSayNothing) {
  std::string many = "[" + wants(3);
  for (int i = 0; i < 1000; ++i) many += "," + wants(i);
  EXPECT_EQ(look(many + "]", 1), Numbers{});
  for (const char* text : {"", "[", "7", "[[]]", "[{\"wanted\":3}]", "{\"group\":\"data\"}"})
    EXPECT_EQ(look(text, 2), Numbers{}) << text;
}

}  // namespace
}  // namespace stoker::agent
