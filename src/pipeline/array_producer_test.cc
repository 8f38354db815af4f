// SPDX-License-Identifier: Apache-2.0
#include "pipeline/array_producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/npy.h"
#include "pipeline/test_archives.h"

namespace stoker::pipeline {
namespace {

Result<NpyHeader> header_of(const std::string& literal, char version = 1) {
  std::string bytes = "\x93NUMPY" + std::string(1, version) + std::string(1, '\0');
  bytes += static_cast<char>(literal.size());
  bytes += version == 1 ? std::string(1, '\0') : std::string(3, '\0');
  return read_npy_header(as_bytes(bytes + literal), "a.npy");
}
std::string kind_of(const std::string& literal, char version = 1) {
  auto header = header_of(literal, version);
  return header ? "" : header.error().fault->kind;
}

TEST(NpyHeader, SaysWhereRowsLie) {
  for (char version : {1, 2, 3}) {
    auto header = header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }     \n", version);
    ASSERT_TRUE(header.ok()) << header.error().message;
    EXPECT_EQ(header->dtype, DType::kFloat32);
    EXPECT_THAT(header->shape, testing::ElementsAre(5, 3));
    EXPECT_EQ(header->data_bytes, 60u);
  }
  EXPECT_THAT(header_of("{'shape': (7,), 'fortran_order': False, 'descr': '|b1'}")->shape,
              testing::ElementsAre(7));
}

TEST(NpyHeader, RefusesWhatHasNoPlainRows) {
  EXPECT_EQ(kind_of("{'descr': '>f4', 'fortran_order': False, 'shape': (5, 3), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': '|O', 'fortran_order': False, 'shape': (5,), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': '<U4', 'fortran_order': False, 'shape': (5,), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (5,), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': True, 'shape': (5, 3), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }"), "unsupported");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }"),
            "too_large");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "corrupt");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }"), "corrupt");
  EXPECT_EQ(kind_of("{'descr': '<f4', 'fortran_order': False, }"), "corrupt");
  EXPECT_EQ(kind_of("__import__('os')"), "corrupt");
  EXPECT_EQ(kind_of("{'descr': '<f4'", 9), "unsupported") << "an unknown version";
  EXPECT_EQ(read_npy_header({}, "a").error().fault->kind, "empty");
}

Plan plan_of(uint64_t items) {
  ArrayPlan arrays{{{"x", DType::kInt16, {2}, "hash"}, {"y", DType::kUint8, {}, "hash"}}, items};
  Json libraries;
  libraries.set("stoker", STOKER_VERSION);
  auto plan = Plan::make_arrays(arrays, 0, libraries);
  CHECK(plan.ok());
  auto again = Plan::parse(plan->json());
  CHECK(again.ok() && again->hash() == plan->hash() && again->arrays() == arrays);
  return *plan;
}

TEST(ArrayProducer, CopiesRowsFromMappedFiles) {
  OwnFolder folder;
  std::string x = folder.write("x", "head" + std::string("aabbccddeeff")), y = folder.write("y", "012");
  std::string places = R"([{"path":")" + x + R"(","offset":4},{"path":")" + y + R"(","offset":0}])";
  auto producer = open_native(plan_of(3), as_bytes(places));
  ASSERT_TRUE(producer.ok()) << producer.error().message;
  uint8_t row[5] = {};
  uint8_t* leaves[] = {row, row + 4};
  Scratch scratch;
  ASSERT_TRUE((*producer)->produce({100, 2}, leaves, scratch).ok());
  EXPECT_EQ(as_text(row), "eeff2");
  EXPECT_EQ((*producer)->produce({100, 3}, leaves, scratch).error().code, Code::kInvalid);
  EXPECT_EQ(open_native(plan_of(4), as_bytes(places)).error().fault->kind, "truncated");
  EXPECT_EQ(open_native(plan_of(3), as_bytes(R"([{"path":"/nowhere/x","offset":0}])")).error().code,
            Code::kUnavailable);
  EXPECT_FALSE(open_native(plan_of(3), as_bytes(R"([{"path":"relative","offset":0}])")).ok());
}

TEST(ArrayPlan, RefusesWhatHasNoRows) {
  auto made = [](ArrayPlan plan) { return Plan::make_arrays(std::move(plan), 0, Json(Json::Object{})).ok(); };
  EXPECT_FALSE(made({{}, 1}));
  EXPECT_FALSE(made({{{"x", DType::kUint8, {-1}, ""}}, 1}));
  EXPECT_FALSE(made({{{"x", DType::kUint8, {1 << 20, 1 << 20}, ""}}, 1}));
  EXPECT_FALSE(made({{{"x", DType::kUint8, {1}, ""}, {"x", DType::kUint8, {1}, ""}}, 1}));
  EXPECT_TRUE(made({{{"x", DType::kUint8, {0}, ""}}, 1}));
}

}  // namespace
}  // namespace stoker::pipeline
