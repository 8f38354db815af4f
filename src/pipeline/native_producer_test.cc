// SPDX-License-Identifier: Apache-2.0
// Rows against the same ops done one after the other by the image room; against torchvision in
// python/stoker/data/pipeline_test.py.
#include "pipeline/native_producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/hash.h"
#include "base/random.h"
#include "base/test_folder.h"
#include "image/border.h"
#include "pipeline/executor.h"

namespace stoker::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Picture {
  image::Size size;
  std::vector<uint8_t> pixels;
  image::ImageView view() const { return {pixels.data(), size.width, size.height, 3 * size.width}; }
};

Picture noise(image::Size size, uint64_t seed) {
  Picture picture{size, std::vector<uint8_t>(static_cast<size_t>(3 * size.width * size.height))};
  SampleRandom draws(seed, 0, 0);
  for (uint8_t& value : picture.pixels) value = static_cast<uint8_t>(draws.next_u32());
  return picture;
}

class NativeProducerTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", (home_ / "cache").c_str(), 1);
    image::Size sizes[] = {{64, 48}, {30, 90}, {101, 57}, {20, 20}, {300, 9}};
    for (const image::Size& size : sizes) add(noise(size, pictures_.size()));
  }

  std::string add_name() {
    std::string name = "p" + std::to_string(builder_.items()) + ".png";
    builder_.add(name, static_cast<int64_t>(10 + builder_.items()));
    return home_ / name;
  }
  void add(Picture picture) {
    png_image png{};
    png.version = PNG_IMAGE_VERSION;
    png.width = static_cast<png_uint_32>(picture.size.width);
    png.height = static_cast<png_uint_32>(picture.size.height);
    png.format = PNG_FORMAT_RGB;
    ASSERT_TRUE(png_image_write_to_file(&png, add_name().c_str(), 0, picture.pixels.data(), 0, nullptr));
    pictures_.push_back(std::move(picture));
  }
  void add_bytes(std::string_view bytes) { std::ofstream(add_name()) << bytes; }

  Plan plan_of(std::vector<Op> geometry, bool to_float) {
    NativePlan body{
        {"files", home_, sha256_hex(builder_.finish()), builder_.items()}, {DecodeRgb{}}, to_float};
    body.ops.insert(body.ops.end(), geometry.begin(), geometry.end());
    if (to_float) {
      body.ops.push_back(ToFloat{ToFloat::kV2});
      body.ops.push_back(Normalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
    }
    auto plan = Plan::make_native(body, 11, native_libraries("13"));
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return *plan;
  }
  std::unique_ptr<Producer> open(const Plan& plan) {
    auto producer = open_native(plan, builder_.finish());
    EXPECT_TRUE(producer.ok()) << producer.error().message;
    return std::move(*producer);
  }

  static void turn_over(Picture& picture) {
    auto line = [&](int y) { return picture.pixels.begin() + ptrdiff_t{3} * picture.size.width * y; };
    for (int y = 0; y < picture.size.height / 2; ++y)
      std::swap_ranges(line(y), line(y + 1), line(picture.size.height - 1 - y));
  }

  // The ops one by one, each into its own picture: the truth that folding must give.
  Picture by_steps(const Plan& plan, SampleRef ref) {
    Picture now = pictures_[ref.item];
    Json chosen = *sample_parameters(plan, ref, now.size);
    image::Workspace workspace;
    auto box_of = [](const Json& one) {
      return image::Box{int(one["left"].as_int()), int(one["top"].as_int()), int(one["width"].as_int()),
                        int(one["height"].as_int())};
    };
    auto crop = [&](const image::Box& box) {
      Picture out = noise(box.size(), 0);
      image::crop(now.view(), box, image::packed(out.pixels.data(), out.size));
      now = out;
    };
    auto resize = [&](image::Size size) {
      if (size == now.size) return;
      Picture out = noise(size, 0);
      ASSERT_TRUE(image::resize(now.view(), image::packed(out.pixels.data(), out.size),
                                image::PassOrder::kPillow13, workspace)
                      .ok());
      now = out;
    };
    for (const Json& op : chosen.as_array()) {
      for (const Json& one : op["did"].as_array()) {
        const std::string& what = one["do"].as_string();
        if (what == "crop") crop(box_of(one));
        if (what == "resize") resize({int(one["width"].as_int()), int(one["height"].as_int())});
        if (what == "horizontal_flip") image::flip(now.view(), image::packed(now.pixels.data(), now.size));
        if (what == "vertical_flip") turn_over(now);
      }
    }
    return now;
  }

  TestFolder own_;
  const fs::path home_ = own_.path();
  ManifestBuilder builder_;
  std::vector<Picture> pictures_;
};

TEST_F(NativeProducerTest, FoldedOpsGiveTheBytesOfSingleSteps) {
  std::vector<std::vector<Op>> pipelines = {
      {RandomResizedCrop{24, 32}, HorizontalFlip{0.5}},
      {HorizontalFlip{0.5}, RandomResizedCrop{24, 32}},
      {Resize{32}, CenterCrop{28, 28}},
      {Resize{32}, HorizontalFlip{0.5}, CenterCrop{28, 20}, HorizontalFlip{0.5}},
      {CenterCrop{40, 40}, Resize{0, 24, 24}},
      {CenterCrop{400, 40}},
      {Resize{0, 33, 21}, Resize{0, 20, 40}, CenterCrop{18, 30}, RandomResizedCrop{16, 16},
       HorizontalFlip{1}},
      {CenterCrop{9, 15}, HorizontalFlip{1}, CenterCrop{8, 6}},
      {RandomResizedCrop{20, 20}, CenterCrop{30, 10}, Resize{0, 12, 12}},
      {Resize{0, 48, 64}, HorizontalFlip{1}},
      {VerticalFlip{0.5}, RandomResizedCrop{24, 32}, VerticalFlip{0.5}, CenterCrop{20, 20}},
      {RandomCrop{30, 20, {}, true}, VerticalFlip{0.5}, HorizontalFlip{0.5}, CenterCrop{18, 14}},
  };
  Scratch scratch;
  for (size_t k = 0; k < pipelines.size(); ++k) {
    Plan plan = plan_of(pipelines[k], false);
    auto producer = open(plan);
    const RowLayout& layout = producer->layout();
    std::vector<uint8_t> image_row(layout.leaves[0].row_bytes);
    int64_t label = 0;
    uint8_t* rows[] = {image_row.data(), reinterpret_cast<uint8_t*>(&label)};
    for (uint64_t position = 0; position < 60; ++position) {
      SampleRef ref{position, position % pictures_.size()};
      auto made = producer->produce(ref, rows, scratch);
      ASSERT_TRUE(made.ok()) << made.error().message;
      Picture wanted = by_steps(plan, ref);
      ASSERT_EQ(layout.leaves[0].shape, (std::vector<int64_t>{3, wanted.size.height, wanted.size.width}));
      std::vector<uint8_t> planes(image_row.size());
      image::to_bytes_chw(wanted.view(), false, planes.data());
      ASSERT_EQ(image_row, planes) << "pipeline " << k << " position " << position;
      EXPECT_EQ(label, 10 + static_cast<int64_t>(ref.item));
    }
  }
}

TEST_F(NativeProducerTest, HasOneRowWhateverThreadMakesIt) {
  Plan plan = plan_of({RandomResizedCrop{32, 32}, HorizontalFlip{0.5}}, true);
  auto producer = open(plan);
  size_t row = producer->layout().row_bytes();
  EXPECT_EQ(producer->layout().leaves[0].dtype, DType::kFloat32);
  EXPECT_EQ(row, 4u * 3 * 32 * 32 + 8);
  auto run = [&](int threads) {
    constexpr uint64_t kRows = 64;
    std::vector<uint8_t> out(kRows * row);
    Executor executor(threads, kRows);
    std::atomic<uint64_t> left = kRows;
    std::promise<void> done;
    for (uint64_t position = 0; position < kRows; ++position) {
      EXPECT_TRUE(
          executor
              .submit(position,
                      [&, position](Scratch& scratch) {
                        uint8_t* at = out.data() + position * row;
                        uint8_t* rows[] = {at, at + row - 8};
                        EXPECT_TRUE(producer->produce({position, position * 7 % 5}, rows, scratch).ok());
                        if (--left == 0) done.set_value();
                      })
              .ok());
    }
    EXPECT_TRUE(executor.start().ok());
    done.get_future().wait();
    executor.stop();
    EXPECT_EQ(executor.times().samples, kRows);
    EXPECT_GT(executor.times().read_bytes, 0u);
    return xxh3_128(out);
  };
  Hash128 one = run(1);
  EXPECT_EQ(run(2), one);
  EXPECT_EQ(run(7), one);
}

TEST_F(NativeProducerTest, DamagedPicturesAreSkippedOrReplacedAsThePlanSays) {
  add_bytes("this is no picture");  // 5
  builder_.add("absent.png", 0);    // 6
  std::vector<Op> ops{Resize{.height = 16, .width = 16}};
  for (OnError how : {OnError::kSkip, OnError::kSubstitute}) {
    Plan raises = plan_of(ops, false);
    NativePlan body = raises.native();
    body.on_error = how;
    auto plan = Plan::make_native(body, 11, native_libraries("13"));
    ASSERT_TRUE(plan.ok());
    EXPECT_NE(plan->hash(), raises.hash());
    EXPECT_EQ(Plan::parse(plan->json())->native().on_error, how);
    auto producer = open(*plan);
    Scratch scratch;
    std::vector<uint8_t> image(3 * 16 * 16, 7), again = image;
    int64_t label = 7;
    uint8_t valid = 7;
    std::vector<uint8_t*> rows = {image.data(), reinterpret_cast<uint8_t*>(&label), &valid};
    rows.resize(producer->layout().leaves.size());
    ASSERT_EQ(rows.size(), how == OnError::kSkip ? 3U : 2U);
    ASSERT_TRUE(producer->produce({3, 5}, rows, scratch).ok());
    if (how == OnError::kSkip) {
      EXPECT_EQ(image, std::vector<uint8_t>(image.size(), 0));
      EXPECT_EQ(label, 0);
      EXPECT_EQ(valid, 0);
      ASSERT_TRUE(producer->produce({4, 1}, rows, scratch).ok());
      EXPECT_EQ(label, 11);
      EXPECT_EQ(valid, 1);
    } else {
      EXPECT_TRUE(label >= 10 && label < 15);  // one of the sound ones, always the same
      rows[0] = again.data();
      ASSERT_TRUE(producer->produce({3, 5}, rows, scratch).ok());
      EXPECT_EQ(again, image);
    }
    EXPECT_EQ(scratch.times.skipped, how == OnError::kSkip ? 1U : 0U);
    EXPECT_EQ(scratch.times.substituted, how == OnError::kSubstitute ? 2U : 0U);
    // What cannot be read is no damage.
    EXPECT_EQ(producer->produce({9, 6}, rows, scratch).error().code, Code::kUnavailable);
  }
}

TEST_F(NativeProducerTest, SaysWhatSamplesCostByStage) {
  auto producer = open(plan_of({Resize{.height = 16, .width = 16}, GaussianBlur{}}, true));
  Scratch scratch;
  std::vector<uint8_t> row(producer->layout().row_bytes());
  uint8_t* rows[] = {row.data(), row.data() + row.size() - 8};
  for (uint64_t i = 0; i < 200; ++i) ASSERT_TRUE(producer->produce({i, i % 5}, rows, scratch).ok());
  EXPECT_GT(scratch.times.timed, 4U);
  EXPECT_LT(scratch.times.timed, 40U);
  Json told = to_json(scratch.times, *producer);
  std::vector<std::string> names;
  for (const Json& stage : told["stages"].as_array()) {
    names.push_back(stage["name"].as_string());
    EXPECT_TRUE(names.back() == "hash" || stage["cpu_s"].as_double() > 0) << names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"read", "decode", "resize + to_float + normalize",
                                             "gaussian_blur", "hash"}));
  EXPECT_EQ(told["made_bytes"].as_int(), int64_t(200 * row.size()));
}

TEST_F(NativeProducerTest, SaysWhichFileIsBadAndTellsItFromAReadThatFailed) {
  add_bytes("this is no picture");  // 5
  add_bytes("");                    // 6
  builder_.add("absent.png", 0);    // 7
  builder_.add("pipe.png", 0);      // 8
  ASSERT_EQ(mkfifo((home_ / "pipe.png").c_str(), 0600), 0);
  std::ifstream whole(home_ / "p0.png");
  std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  add_bytes(bytes.substr(0, bytes.size() / 2));  // 9
  auto producer = open(plan_of({CenterCrop{8, 8}}, false));
  std::vector<uint8_t> row(producer->layout().leaves[0].row_bytes);
  int64_t label;
  uint8_t* rows[] = {row.data(), reinterpret_cast<uint8_t*>(&label)};
  Scratch scratch;
  auto error_of = [&](uint64_t item) {
    auto made = producer->produce({77, item}, rows, scratch);
    EXPECT_FALSE(made.ok()) << item;
    return made.ok() ? Error{} : made.error();
  };
  EXPECT_EQ(error_of(5).fault->kind, "not_image");
  EXPECT_EQ(error_of(5).fault->path, home_ / "p5.png");
  EXPECT_EQ(error_of(5).code, Code::kData);
  EXPECT_THAT(error_of(5).message, HasSubstr("position 77 (item 5): " + (home_ / "p5.png").string()));
  EXPECT_EQ(error_of(6).fault->kind, "empty");
  EXPECT_EQ(error_of(9).fault->kind, "truncated");
  EXPECT_EQ(error_of(8).fault->kind, "unreadable");
  EXPECT_EQ(error_of(7).code, Code::kUnavailable);
  EXPECT_FALSE(error_of(7).fault);
  EXPECT_THAT(error_of(7).message, HasSubstr("absent.png"));
  EXPECT_EQ(error_of(10).code, Code::kInvalid);
  EXPECT_TRUE(producer->produce({0, 0}, rows, scratch).ok()) << "the scratch is good after errors";
}

TEST_F(NativeProducerTest, RefusesAManifestOrLibrariesThatAreNotThePlans) {
  Plan plan = plan_of({CenterCrop{8, 8}}, false);
  EXPECT_EQ(open_native(plan).error().code, Code::kNotFound);
  add(noise({5, 5}, 1));
  EXPECT_FALSE(open_native(plan, builder_.finish()).ok());
  Plan python = *Plan::make_python({"a.B", "", "", "c.d", 3}, 0, Json(Json::Object{}));
  EXPECT_EQ(open_native(python).error().code, Code::kInvalid);
}

// Knows pictures that begin with "GIF": 40 x 30, gray of the next byte.
class FakeOthers final : public OtherFormats {
 public:
  Result<OtherPicture> decode(ByteView file, const Error& refused, image::Gray16 gray16,
                              std::vector<uint8_t>& pixels) const override {
    ++asked;
    if (!as_text(file).starts_with("GIF89a")) return refused;
    bool scaled = gray16 == image::Gray16::kScale;
    pixels.assign(3 * 40 * 30, scaled ? file[7] : file[6]);
    return OtherPicture{image::packed(pixels.data(), {40, 30}), !scaled, 0};
  }
  mutable std::atomic<int> asked = 0;
};

TEST_F(NativeProducerTest, ThePlanSaysHowSixteenBitsOfGrayBecomeEight) {
  add_bytes("GIF89a78");
  Plan clipped = plan_of({Resize{0, 8, 8}}, false);
  NativePlan body = clipped.native();
  body.ops[0] = DecodeRgb{image::Gray16::kScale};
  Plan scaled = *Plan::make_native(body, clipped.seed(), clipped.libraries());
  EXPECT_NE(scaled.hash(), clipped.hash());
  EXPECT_THAT(scaled.json(), HasSubstr(R"({"gray16":"scale","op":"decode_rgb"})"));
  EXPECT_EQ(Plan::parse(scaled.json())->native(), scaled.native());
  std::vector<uint8_t> manifest = builder_.finish();
  for (const Plan& plan : {clipped, scaled}) {
    auto producer = open_native(plan, manifest, {}, std::make_shared<FakeOthers>());
    ASSERT_TRUE(producer.ok());
    Scratch scratch;
    std::vector<uint8_t> row(3 * 8 * 8);
    int64_t label = 0;
    uint8_t* leaves[] = {row.data(), reinterpret_cast<uint8_t*>(&label)};
    ASSERT_TRUE((*producer)->produce({0, 5}, leaves, scratch).ok());
    EXPECT_THAT(row, testing::Each(plan.hash() == scaled.hash() ? '8' : '7'));
  }
}

TEST_F(NativeProducerTest, WhatWeDoNotReadIsAskedOfOthers) {
  add_bytes("GIF89a7");
  add_bytes("a letter");
  Plan plan = plan_of({Resize{0, 8, 8}}, false);
  auto others = std::make_shared<FakeOthers>();
  auto producer = open_native(plan, builder_.finish(), {}, others);
  ASSERT_TRUE(producer.ok());
  Scratch scratch;
  std::vector<uint8_t> row(3 * 8 * 8);
  int64_t label = 0;
  uint8_t* leaves[] = {row.data(), reinterpret_cast<uint8_t*>(&label)};
  ASSERT_TRUE((*producer)->produce({0, 1}, leaves, scratch).ok());
  EXPECT_EQ(others->asked, 0);
  Status made = (*producer)->produce({1, 5}, leaves, scratch);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(label, 15);
  EXPECT_THAT(row, testing::Each('7'));
  EXPECT_EQ(scratch.times.other_formats, 1U);
  made = (*producer)->produce({2, 6}, leaves, scratch);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(others->asked, 2);
  EXPECT_EQ(made.error().fault->kind, "not_image");
  EXPECT_EQ(made.error().fault->path, home_ / "p6.png");
  EXPECT_THAT(open(plan)->produce({1, 5}, leaves, scratch).error().message, HasSubstr("GIF pictures"));
}

}  // namespace
}  // namespace stoker::pipeline
