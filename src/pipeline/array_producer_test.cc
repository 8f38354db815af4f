// SPDX-License-Identifier: Apache-2.0
#include "pipeline/array_producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "pipeline/native_producer.h"
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

// The same pixels as a PNG of an image plan, whichever way the array holds them.
Plan picture_plan(const std::string& layout, const std::string& shape, const std::string& ops) {
  std::string text = R"({"format":"stoker-plan/1","kind":"arrays","seed":7,"items":2,"columns":[)"
                     R"({"name":"y","dtype":"uint8","shape":[],"content":""},)"
                     R"({"name":"x","dtype":"uint8","shape":)" +
                     shape + R"(,"content":""}],"pictures":{"column":"x","layout":")" + layout +
                     R"(","ops":)" + ops + R"(},"libraries":)" + native_libraries("13").dump() + "}";
  auto plan = Plan::parse(text);
  if (!plan.ok()) ADD_FAILURE() << plan.error().message;
  auto again = Plan::parse(plan->json());
  CHECK(again.ok() && again->hash() == plan->hash() && again->arrays() == plan->arrays());
  return *std::move(plan);
}

TEST(ArrayProducer, TransformsPicturesInterleavedOrInPlanes) {
  constexpr int kWidth = 5, kHeight = 4, kArea = kWidth * kHeight;
  std::vector<uint8_t> packed(2 * 3 * kArea), planes(packed.size()), labels{11, 12};
  for (int item = 0; item < 2; ++item) {
    for (int i = 0; i < 3 * kArea; ++i) {
      auto value = static_cast<uint8_t>(100 * item + i);
      planes[static_cast<size_t>(item * 3 * kArea + i)] = value;
      packed[static_cast<size_t>(item * 3 * kArea + 3 * (i % kArea) + i / kArea)] = value;
    }
  }
  const std::string ops =
      R"([{"op":"random_crop","size":[4,5],"padding":[1,1,1,1]},{"op":"horizontal_flip","p":0.5},)"
      R"({"op":"to_float","rule":"unscaled"}])";
  auto a = ArrayProducer::open(picture_plan("hwc", "[4,5,3]", ops), {labels, packed});
  auto b = ArrayProducer::open(picture_plan("chw", "[3,4,5]", ops), {labels, planes});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*a)->layout().leaves[1], (Leaf{"x", DType::kFloat32, {3, 4, 5}, 240}));
  const std::vector<uint8_t> before = packed;
  std::set<std::vector<float>> seen;
  Scratch scratch;
  for (uint64_t position = 0; position < 64; ++position) {
    SampleRef ref{position, position % 2};
    std::vector<float> rows[2] = {std::vector<float>(3 * kArea), std::vector<float>(3 * kArea)};
    for (int k = 0; k < 2; ++k) {
      uint8_t label = 0;
      uint8_t* leaves[] = {&label, reinterpret_cast<uint8_t*>(rows[k].data())};
      ASSERT_TRUE((k == 0 ? *a : *b)->produce(ref, leaves, scratch).ok());
      EXPECT_EQ(label, labels[ref.item]);
    }
    EXPECT_EQ(rows[0], rows[1]);
    auto did = sample_parameters(picture_plan("hwc", "[4,5,3]", ops), ref, {kWidth, kHeight});
    ASSERT_TRUE(did.ok());
    const Json& crop = did->as_array()[0]["did"].as_array()[0];
    bool flipped = !did->as_array()[1]["did"].as_array().empty();
    for (int i = 0; i < 3 * kArea; ++i) {
      int x = i % kWidth, y = i / kWidth % kHeight;
      int from_x = (flipped ? kWidth - 1 - x : x) + static_cast<int>(crop["left"].as_int());
      int from_y = y + static_cast<int>(crop["top"].as_int());
      bool inside = from_x >= 0 && from_x < kWidth && from_y >= 0 && from_y < kHeight;
      int at = i / kArea * kArea + from_y * kWidth + from_x;
      float wanted = inside ? planes[ref.item * 3 * kArea + static_cast<size_t>(at)] : 0;
      ASSERT_EQ(rows[0][static_cast<size_t>(i)], wanted) << position << " " << i;
    }
    seen.insert(rows[0]);
  }
  EXPECT_GT(seen.size(), 15u);
  EXPECT_EQ(packed, before);
}

TEST(ArrayProducer, ChangesOfColourLeaveTheArrayAsItIs) {
  std::vector<uint8_t> packed(2 * 12), labels{1, 2};
  std::iota(packed.begin(), packed.end(), uint8_t{0});
  const std::vector<uint8_t> before = packed;
  auto producer = ArrayProducer::open(picture_plan("hwc", "[2,2,3]", R"([{"op":"adjust","what":"invert"}])"),
                                      {labels, packed});
  ASSERT_TRUE(producer.ok());
  Scratch scratch;
  for (int times = 0; times < 2; ++times) {
    uint8_t label = 0, row[12] = {};
    uint8_t* leaves[] = {&label, row};
    ASSERT_TRUE((*producer)->produce({0, 1}, leaves, scratch).ok());
    EXPECT_THAT(row, testing::ElementsAre(243, 240, 237, 234, 242, 239, 236, 233, 241, 238, 235, 232));
  }
  EXPECT_EQ(packed, before);
}

TEST(ArrayPlan, RefusesPicturesThatAreNone) {
  auto made = [](ArrayColumn column, ArrayPictures pictures) {
    ArrayPlan plan{{std::move(column)}, 1, std::move(pictures)};
    return Plan::make_arrays(std::move(plan), 0, native_libraries("13")).ok();
  };
  Ops flip{HorizontalFlip{}};
  EXPECT_TRUE(made({"x", DType::kUint8, {4, 5, 3}, ""}, {"x", false, flip}));
  EXPECT_FALSE(made({"x", DType::kUint8, {4, 5, 3}, ""}, {"x", true, flip}));
  EXPECT_FALSE(made({"x", DType::kUint8, {4, 5, 3}, ""}, {"y", false, flip}));
  EXPECT_FALSE(made({"x", DType::kInt16, {4, 5, 3}, ""}, {"x", false, flip}));
  EXPECT_FALSE(made({"x", DType::kUint8, {0, 5, 3}, ""}, {"x", false, flip}));
  EXPECT_FALSE(made({"x", DType::kUint8, {5, 3}, ""}, {"x", false, flip}));
  EXPECT_FALSE(made({"x", DType::kUint8, {4, 5, 3}, ""}, {"x", false, {DecodeRgb{}}}));
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
