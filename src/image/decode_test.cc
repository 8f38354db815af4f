// SPDX-License-Identifier: Apache-2.0
#include "image/decode.h"

#include <gtest/gtest.h>
#include <webp/encode.h>

#include <algorithm>
#include <cstring>

#include "image/test_pictures.h"
#include "image/workspace_parts.h"

namespace stoker::image {
namespace {

bool same(const ImageView& a, const ImageView& b) {
  if (a.size() != b.size()) return false;
  for (int y = 0; y < a.height; ++y) {
    if (std::memcmp(a.row(y), b.row(y), 3 * size_t(a.width)) != 0) return false;
  }
  return true;
}

std::string kind_of(const Error& error) { return error.fault ? error.fault->kind : "none"; }
std::string kind_of(ByteView data) {
  Workspace workspace;
  auto decoded = decode_rgb(data, workspace);
  return decoded.ok() ? "decoded" : kind_of(decoded.error());
}

Box any_box(Size in, std::mt19937& random) {
  int width = 1 + int(random() % unsigned(in.width));
  int height = 1 + int(random() % unsigned(in.height));
  return {int(random() % unsigned(in.width - width + 1)), int(random() % unsigned(in.height - height + 1)),
          width, height};
}

TEST(DecodeTest, ARegionIsThePartOfTheWhole) {
  std::mt19937 random(3);
  Workspace whole_space;
  Workspace region_space;
  for (int round = 0; round < 400; ++round) {
    JpegKind kind = any_kind(random);
    Size size{1 + int(random() % 150), 1 + int(random() % 150)};
    auto data = make_jpeg(size, kind, random);
    auto whole = decode_rgb(data, whole_space);
    ASSERT_TRUE(whole.ok()) << kind.text() << ": " << whole.error().message;
    ASSERT_EQ(whole->size(), size);
    for (int i = 0; i < 8; ++i) {
      Box box = any_box(size, random);
      auto region = decode_region(data, box, region_space);
      ASSERT_TRUE(region.ok()) << kind.text() << ": " << region.error().message;
      ASSERT_TRUE(same(*region, whole->crop(box)))
          << kind.text() << ", " << size.width << "x" << size.height << ", box " << box.left << " " << box.top
          << " " << box.width << "x" << box.height;
    }
  }
}

std::vector<uint8_t> make_webp(Size size, int components, bool lossless, float quality,
                               std::mt19937& random) {
  std::vector<uint8_t> pixels = pattern(size, components, random);
  const uint8_t* in = pixels.data();
  int stride = components * size.width;
  uint8_t* data = nullptr;
  size_t bytes = components == 4
                     ? (lossless ? WebPEncodeLosslessRGBA(in, size.width, size.height, stride, &data)
                                 : WebPEncodeRGBA(in, size.width, size.height, stride, quality, &data))
                     : (lossless ? WebPEncodeLosslessRGB(in, size.width, size.height, stride, &data)
                                 : WebPEncodeRGB(in, size.width, size.height, stride, quality, &data));
  std::vector<uint8_t> out(data, data + bytes);
  WebPFree(data);
  return out;
}

TEST(DecodeTest, ARegionOfAWebpIsThePartOfTheWhole) {
  std::mt19937 random(9);
  Workspace whole_space;
  Workspace region_space;
  for (int round = 0; round < 120; ++round) {
    Size size{1 + int(random() % 120), 1 + int(random() % 120)};
    auto data =
        make_webp(size, random() % 2 ? 3 : 4, random() % 3 == 0, random() % 2 ? 20.0F : 90.0F, random);
    auto whole = decode_rgb(data, whole_space);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    ASSERT_EQ(whole->size(), size);
    for (int i = 0; i < 8; ++i) {
      Box box = any_box(size, random);
      auto region = decode_region(data, box, region_space);
      ASSERT_TRUE(region.ok()) << region.error().message;
      ASSERT_TRUE(same(*region, whole->crop(box))) << size.width << "x" << size.height << ", box " << box.left
                                                   << " " << box.top << " " << box.width << "x" << box.height;
    }
    for (size_t length = 1; length < data.size(); length += 1 + random() % 97) {
      std::vector<uint8_t> cut(data.begin(), data.begin() + ptrdiff_t(length));
      EXPECT_EQ(kind_of(ByteView(cut)), length < 12 ? "not_image" : "truncated")
          << length << " of " << data.size();
      EXPECT_FALSE(decode_region(cut, {0, 0, 1, 1}, region_space).ok());
    }
  }
}

TEST(DecodeTest, ACutFileIsNeverPadded) {
  std::mt19937 random(4);
  Workspace workspace;
  Workspace cut_space;
  for (int round = 0; round < 40; ++round) {
    JpegKind kind = any_kind(random);
    Size size{8 + int(random() % 60), 8 + int(random() % 60)};
    auto data = make_jpeg(size, kind, random);
    auto whole = decode_rgb(data, workspace);
    ASSERT_TRUE(whole.ok());
    for (size_t length = 0; length < data.size(); length += 1 + random() % 7) {
      // A copy of exactly that length: the sanitizer's build sees a byte too far.
      std::vector<uint8_t> cut(data.begin(), data.begin() + ptrdiff_t(length));
      auto decoded = decode_rgb(cut, cut_space);
      if (decoded.ok()) {
        ASSERT_TRUE(same(*decoded, *whole)) << kind.text() << " cut to " << length << " of " << data.size();
      } else {
        ASSERT_EQ(kind_of(decoded.error()), length == 0   ? "empty"
                                            : length == 1 ? "not_image"
                                                          : "truncated")
            << decoded.error().message;
      }
      // The cut is found from any region, even one that lies above it.
      auto region = decode_region(cut, {0, 0, 4, 4}, cut_space);
      ASSERT_EQ(region.ok(), decoded.ok()) << kind.text() << " cut to " << length << " of " << data.size();
    }
  }
}

TEST(DecodeTest, TrailingBytesAndSecondPicturesAreIgnored) {
  std::mt19937 random(5);
  Workspace workspace;
  Workspace other;
  auto data = make_jpeg({40, 30}, {}, random);
  auto second = make_jpeg({50, 50}, {}, random);
  auto whole = decode_rgb(data, workspace);
  ASSERT_TRUE(whole.ok());
  std::vector<uint8_t> longer = data;
  longer.insert(longer.end(), second.begin(), second.begin() + 300);
  auto decoded = decode_rgb(longer, other);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(same(*decoded, *whole));
  EXPECT_TRUE(decode_region(longer, {3, 3, 9, 9}, other).ok());
}

TEST(DecodeTest, OnePicturesTablesDoNotServeTheNext) {
  std::mt19937 random(6);
  auto data = make_jpeg({24, 24}, {}, random);
  std::vector<uint8_t> without = data;
  const uint8_t dqt[] = {0xFF, 0xDB};
  auto at = std::search(without.begin(), without.end(), dqt, dqt + 2);
  ASSERT_NE(at, without.end());
  ptrdiff_t length = 2 + (at[2] << 8 | at[3]);
  without.erase(at, at + length);
  Workspace workspace;
  ASSERT_TRUE(decode_rgb(data, workspace).ok());
  auto decoded = decode_rgb(without, workspace);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(kind_of(decoded.error()), "corrupt");
  EXPECT_TRUE(decode_rgb(data, workspace).ok());
}

TEST(DecodeTest, KindsOfWrongBytes) {
  auto text = [](std::string_view bytes) { return kind_of(as_bytes(bytes)); };
  EXPECT_EQ(text(""), "empty");
  EXPECT_EQ(text("   \n\n"), "not_image");
  EXPECT_EQ(text("<!DOCTYPE html><html>"), "not_image");
  EXPECT_EQ(text("\xff\xd8"), "truncated");
  EXPECT_EQ(text("GIF89a......"), "unsupported");
  EXPECT_EQ(text("RIFF\1\2\3\4WEBPVP8 "), "truncated");
  EXPECT_EQ(text("RIFF\1\2\3\4WEBPVP9 ..............."), "corrupt");
  EXPECT_EQ(text("RIFF\1\2\3\4WAVEfmt ..............."), "not_image");
  EXPECT_EQ(text("\x89PNG\r\n"), "truncated");
}

TEST(DecodeTest, TheSizeLimitIsCheckedOnTheHeader) {
  std::mt19937 random(7);
  auto data = make_jpeg({16, 16}, {}, random);
  const uint8_t sof[] = {0xFF, 0xC0};
  auto at = std::search(data.begin(), data.end(), sof, sof + 2);
  ASSERT_NE(at, data.end());
  const uint8_t sides[] = {0xFA, 0x00, 0xFA, 0x00};
  std::copy(sides, sides + 4, at + 5);
  Workspace workspace;
  auto decoded = decode_rgb(data, workspace);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(kind_of(decoded.error()), "too_large");
  EXPECT_EQ(workspace.bytes(), 0U);
}

TEST(DecodeTest, DamageLeavesTheWorkspaceUsable) {
  std::mt19937 random(8);
  Workspace workspace;
  Workspace fresh;
  for (int round = 0; round < 300; ++round) {
    JpegKind kind = any_kind(random);
    auto data = make_jpeg({40, 40}, kind, random);
    auto damaged = data;
    for (int i = 0; i < 4; ++i) damaged[random() % damaged.size()] = uint8_t(random());
    auto bad = decode_rgb(damaged, workspace);
    EXPECT_TRUE(bad.ok() || kind_of(bad.error()) != "none");
    auto good = decode_rgb(data, workspace);
    auto expected = decode_rgb(data, fresh);
    ASSERT_TRUE(good.ok() && expected.ok());
    ASSERT_TRUE(same(*good, *expected));
  }
}

}  // namespace
}  // namespace stoker::image
