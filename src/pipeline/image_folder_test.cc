// SPDX-License-Identifier: Apache-2.0
// The handed folder cases run in python/stoker/data/pipeline_test.py, beside torchvision; here is what they
// leave out.
#include "pipeline/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/test_folder.h"
#include "pipeline/plan.h"
#include "pipeline/python_order.h"

namespace stoker::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ImageFolder : public testing::Test {
 protected:
  void SetUp() override { setenv("XDG_CACHE_HOME", (home_ / "cache").c_str(), 1); }

  std::string root() const { return home_ / "root"; }
  void file(const std::string& path) {
    fs::create_directories((fs::path(root()) / path).parent_path());
    std::ofstream(fs::path(root()) / path) << "x";
  }
  std::vector<std::string> paths(const Manifest& manifest) {
    std::vector<std::string> out;
    for (uint64_t i = 0; i < manifest.items(); ++i) out.emplace_back(manifest.path(i));
    return out;
  }
  TestFolder own_;
  const fs::path home_ = own_.path();
};

TEST_F(ImageFolder, WalksAsTorchvision) {
  for (const char* path : {"a/z.jpg", "a/b/1.jpg", "a/b-c/2.jpg", "a/b/d/3.JPG", "a/readme.txt", "b/0.webp"})
    file(path);
  auto listing = list_image_folder(root());
  ASSERT_TRUE(listing.ok()) << listing.error().message;
  // '-' sorts before '/': "a/b-c" comes before "a/b/d", after "a/b".
  EXPECT_THAT(paths(listing->manifest),
              ElementsAre("a/z.jpg", "a/b/1.jpg", "a/b-c/2.jpg", "a/b/d/3.JPG", "b/0.webp"));
  EXPECT_THAT(listing->manifest.labels(), ElementsAre(0, 0, 0, 0, 1));
}

TEST_F(ImageFolder, NamesALoopOfLinks) {
  file("a/0.jpg");
  fs::create_directories(root() + "/a/deep/er");
  fs::create_directory_symlink("../..", root() + "/a/deep/er/up");
  auto listing = list_image_folder(root());
  ASSERT_FALSE(listing.ok());
  EXPECT_EQ(listing.error().fault->kind, "link_loop");
  EXPECT_THAT(listing.error().fault->path, HasSubstr("/a/deep/er/up"));
  fs::remove(root() + "/a/deep/er/up");
  fs::create_directory_symlink("self", root() + "/self");
  EXPECT_EQ(list_image_folder(root()).error().fault->kind, "link_loop");
}

TEST_F(ImageFolder, TakesATreeThatIsLinkedTwice) {
  file("a/x/0.jpg");
  fs::create_directories(root() + "/b");
  fs::create_directory_symlink("../a/x", root() + "/b/one");
  fs::create_directory_symlink("../a/x", root() + "/b/two");
  auto listing = list_image_folder(root());
  ASSERT_TRUE(listing.ok()) << listing.error().message;
  EXPECT_THAT(paths(listing->manifest), ElementsAre("a/x/0.jpg", "b/one/0.jpg", "b/two/0.jpg"));
}

TEST_F(ImageFolder, SaysWhatIsMissing) {
  EXPECT_EQ(list_image_folder(root()).error().code, Code::kNotFound);
  fs::create_directories(root());
  EXPECT_EQ(list_image_folder(root()).error().fault->kind, "no_classes");
  file("a/0.jpg");
  fs::create_directories(root() + "/b");
  auto empty = list_image_folder(root());
  EXPECT_EQ(empty.error().fault->kind, "empty_class");
  EXPECT_EQ(empty.error().fault->path, root() + "/b");
  auto allowed = list_image_folder(root(), true);
  ASSERT_TRUE(allowed.ok());
  EXPECT_EQ(allowed->manifest.class_count(), 2u);
}

// A change within 2 s of a listing may not show in a directory's times.
class Later final : public Clock {
 public:
  int64_t monotonic_ns() const override { return system_clock().monotonic_ns(); }
  int64_t wall_ms() const override { return system_clock().wall_ms() + 3000; }
};

TEST_F(ImageFolder, AListingOfAFreshTreeIsNotTrusted) {
  file("a/0.jpg");
  EXPECT_FALSE(open_image_folder(root())->from_cache);
  EXPECT_FALSE(open_image_folder(root())->from_cache);
}

TEST_F(ImageFolder, OpensFromTheCacheUntilADirectoryChanges) {
  Later later;
  file("a/0.jpg");
  file("b/c/1.jpg");
  auto first = open_image_folder(root(), false, later);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_FALSE(first->from_cache);
  auto second = open_image_folder(root());
  EXPECT_TRUE(second->from_cache);
  EXPECT_EQ(second->manifest.hash(), first->manifest.hash());

  file("b/c/2.jpg");
  auto third = open_image_folder(root());
  EXPECT_FALSE(third->from_cache);
  EXPECT_EQ(third->manifest.items(), 3u);

  // Damage in the cache is found by the hash and listed over.
  fs::remove(root() + "/b/c/2.jpg");
  std::ofstream(home_ / "cache/stoker/manifests" / first->manifest.hash(), std::ios::app) << "x";
  EXPECT_EQ(open_image_folder(root())->manifest.hash(), first->manifest.hash());
}

TEST_F(ImageFolder, AManifestIsFoundForAPlan) {
  file("a/0.jpg");
  auto listing = list_image_folder(root());
  auto plan_for = [&](const std::string& kind) {
    NativePlan body{{kind, root(), listing->manifest.hash(), 1}, {DecodeRgb{}, CenterCrop{8, 8}}, false};
    return *Plan::make_native(body, 0, native_libraries("13"));
  };
  auto listed = find_manifest(plan_for("image_folder"));
  EXPECT_TRUE(listed.ok()) << "made again from the root";
  fs::remove_all(home_ / "cache");
  auto absent = find_manifest(plan_for("files"));
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_TRUE(find_manifest(plan_for("files"), listing->manifest.bytes()).ok()) << "from the attachment";
  ASSERT_TRUE(save_manifest(listing->manifest).ok());
  EXPECT_TRUE(find_manifest(plan_for("files")).ok()) << "from the cache";
  file("a/1.jpg");
  fs::remove_all(home_ / "cache");
  auto changed = find_manifest(plan_for("image_folder"));
  EXPECT_THAT(changed.error().message, HasSubstr("another manifest"));
}

// Golden: sorted() of these names in Python (os.fsdecode).
TEST(PythonOrder, IsByCodePointWithEscapedBytes) {
  std::vector<std::string> sorted{
      "",       "a",     "a\x7f",         "a\xc3\xa9",     "a\xed\x9f\xbf",     "a\x80", "a\x80z", "a\xc3",
      "a\xc3.", "a\xff", "a\xee\x80\x80", "a\xef\xbf\xbd", "a\xf0\x9f\x90\xb6", "b"};
  std::vector<std::string> names = sorted;
  std::reverse(names.begin(), names.end());
  std::sort(names.begin(), names.end(), less_as_python);
  EXPECT_EQ(names, sorted);
  for (const std::string& a : sorted) EXPECT_FALSE(less_as_python(a, a));
}

}  // namespace
}  // namespace stoker::pipeline
