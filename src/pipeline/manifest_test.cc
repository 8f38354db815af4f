// SPDX-License-Identifier: Apache-2.0
#include "pipeline/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"

namespace stoker::pipeline {
namespace {

std::vector<uint8_t> small() {
  ManifestBuilder builder;
  builder.add_class("cat");
  builder.add_class("dog");
  builder.add("cat/0.jpg", 0);
  builder.add("dog/1 \xff.jpg", 1);
  builder.add("/elsewhere/2.jpg", -5);
  return builder.finish();
}

TEST(Manifest, GivesBackWhatWentIn) {
  auto manifest = Manifest::from_bytes(small());
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->items(), 3u);
  EXPECT_EQ(manifest->path(0), "cat/0.jpg");
  EXPECT_EQ(manifest->path(1), "dog/1 \xff.jpg");
  EXPECT_EQ(manifest->label(2), -5);
  EXPECT_EQ(manifest->class_count(), 2u);
  EXPECT_EQ(manifest->class_name(1), "dog");
  EXPECT_EQ(manifest->hash(), sha256_hex(small()));
  Manifest copy = *manifest;
  manifest = Manifest::from_bytes(ManifestBuilder().finish());
  EXPECT_EQ(copy.path(0), "cat/0.jpg") << "a copy keeps the bytes alive";
  EXPECT_EQ(manifest->items(), 0u);
  EXPECT_EQ(manifest->class_count(), 0u);
}

std::vector<uint8_t> with_extents() {
  ManifestBuilder builder;
  builder.add_file("a.tar", 100);
  builder.add_file("empty.tar", 0);
  builder.add_file("b.tar", 50);
  builder.add_extent(50, 0, -1);
  builder.add_extent(10, 40, 7);
  return builder.finish();
}

TEST(Manifest, GivesBackExtents) {
  auto manifest = Manifest::from_bytes(with_extents());
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  ASSERT_TRUE(manifest->has_extents());
  EXPECT_EQ(manifest->items(), 2u);
  EXPECT_EQ(manifest->files(), 3u);
  EXPECT_EQ(manifest->path(1), "b.tar");
  EXPECT_EQ(manifest->extent(1), (Extent{2, 10, 40}));
  EXPECT_EQ(manifest->file_size(0), 100u);
  EXPECT_EQ(manifest->label(1), 7);
  EXPECT_THAT(manifest->file_starts(), testing::ElementsAre(0, 0, 0, 2));
  EXPECT_FALSE(Manifest::from_bytes(small())->has_extents());
}

void expect_damage_is_harmless(const std::vector<uint8_t>& good);

TEST(Manifest, AnyDamageIsRefusedOrStillSafeToRead) {
  expect_damage_is_harmless(small());
  expect_damage_is_harmless(with_extents());
}

void expect_damage_is_harmless(const std::vector<uint8_t>& good) {
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(Manifest::from_bytes({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}).ok())
        << size;
  for (size_t at = 0; at < good.size(); ++at) {
    for (uint8_t flip : {0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> bad = good;
      bad[at] ^= flip;
      auto manifest = Manifest::from_bytes(bad);
      if (!manifest) {
        EXPECT_EQ(manifest.error().fault->kind, "corrupt");
        continue;
      }
      EXPECT_NE(manifest->hash(), sha256_hex(good));
      for (uint64_t i = 0; i < manifest->items(); ++i) EXPECT_FALSE(manifest->path(i).empty());
      for (size_t c = 0; c < manifest->class_count(); ++c) EXPECT_LE(manifest->class_name(c).size(), 6u);
    }
  }
}

TEST(ManifestOfFiles, PutsPathsUnderTheirRoot) {
  using namespace std::literals;
  std::vector<int64_t> labels{3, 1, 4, 1};
  auto manifest = manifest_of_files("data/a/0.jpg\0data2/1.jpg\0/abs/2.jpg\0data/b/3.jpg"sv, labels,
                                    {"x", "y"}, "data", "/home");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  EXPECT_EQ(manifest->path(0), "a/0.jpg");
  EXPECT_EQ(manifest->path(1), "/home/data2/1.jpg");
  EXPECT_EQ(manifest->path(2), "/abs/2.jpg");
  EXPECT_EQ(manifest->path(3), "b/3.jpg");
  EXPECT_THAT(std::vector<int64_t>(manifest->labels().begin(), manifest->labels().end()),
              testing::ElementsAreArray(labels));
  EXPECT_EQ(manifest->class_name(1), "y");
  EXPECT_FALSE(manifest_of_files("a"sv, labels, {}, "", "/").ok()) << "fewer paths than labels";
  EXPECT_FALSE(manifest_of_files("a\0b\0c\0d\0e"sv, labels, {}, "", "/").ok()) << "more paths than labels";
}

}  // namespace
}  // namespace stoker::pipeline
