// SPDX-License-Identifier: Apache-2.0
#include "pipeline/picture_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/test_folder.h"

namespace stoker::pipeline {
namespace {

namespace fs = std::filesystem;

class PictureStoreTest : public testing::Test {
 protected:
  PictureStore open(uint64_t items = kItems, uint64_t budget = 1 << 20) {
    auto store = PictureStore::open(path_, items, budget);
    EXPECT_TRUE(store.ok()) << store.error().message;
    return std::move(*store);
  }
  static std::vector<uint8_t> entry(uint64_t item, uint64_t stamp = 0) {
    std::vector<uint8_t> bytes(10 + 97 * item % 400);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(item + stamp + 3 * i);
    return bytes;
  }
  // The whole entry if it is there: its head is 8 bytes.
  static std::optional<std::vector<uint8_t>> get(const PictureStore& store, uint64_t item, uint64_t stamp) {
    std::vector<uint8_t> head;
    auto found = store.find(item, stamp, head);
    if (!found) return {};
    std::vector<uint8_t> bytes(found->size);
    if (!store.read(*found, 0, bytes)) return {};
    EXPECT_TRUE(std::equal(head.begin(), head.end(), bytes.begin()));
    return bytes;
  }
  void put_all(const PictureStore& store, uint64_t first = 0, uint64_t step = 1) {
    for (uint64_t item = first; item < kItems; item += step) store.put(item, 7, entry(item), 8);
  }
  std::vector<uint8_t> raw() { return *read_file(path_); }
  void write_raw(ByteView bytes) { ASSERT_TRUE(write_file_atomic(path_, bytes).ok()); }

  static constexpr uint64_t kItems = 50;
  TestFolder own_;
  const fs::path folder_ = own_.path();
  const std::string path_ = folder_ / "store";
};

TEST_F(PictureStoreTest, GivesBackWhatWasPutForThatStampAlone) {
  PictureStore store = open();
  EXPECT_FALSE(get(store, 3, 7));
  put_all(store);
  PictureStore other = open();
  for (uint64_t item = 0; item < kItems; ++item) EXPECT_EQ(get(other, item, 7), entry(item));
  EXPECT_FALSE(get(other, 3, 8)) << "the picture is another one";
  EXPECT_FALSE(get(other, kItems, 7));
  store.put(3, 8, entry(3, 8), 8);
  EXPECT_EQ(get(other, 3, 8), entry(3, 8));
  EXPECT_FALSE(get(other, 3, 7));
  EXPECT_EQ(other.figures().entries, kItems);
  std::vector<uint8_t> head;
  auto found = other.find(0, 7, head);
  std::vector<uint8_t> much(found->size + 1);
  EXPECT_FALSE(other.read(*found, 0, much)) << "past its end";
  EXPECT_FALSE(other.read(*found, found->size + 1, {}));
}

TEST_F(PictureStoreTest, SeveralWriteAtOnce) {
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      PictureStore own = open();         // as a process has it
      put_all(own, uint64_t(n) % 2, 2);  // two of them the same ones
    });
  }
  for (std::thread& thread : threads) thread.join();
  PictureStore store = open();
  for (uint64_t item = 0; item < kItems; ++item) EXPECT_EQ(get(store, item, 7), entry(item));
}

TEST_F(PictureStoreTest, WhatWasNotWrittenToItsEndIsNotThere) {
  { put_all(open()); }
  std::vector<uint8_t> whole = raw();
  for (size_t cut = 0; cut < whole.size(); cut += 1 + cut % 37) {
    write_raw(ByteView(whole).first(cut));
    PictureStore store = open();
    for (uint64_t item = 0; item < kItems; ++item) {
      auto got = get(store, item, 7);
      ASSERT_TRUE(!got || *got == entry(item)) << "cut at " << cut;
    }
    store.put(1, 9, entry(1, 9), 8);
    ASSERT_EQ(get(store, 1, 9), entry(1, 9)) << "it goes on behind a torn end";
  }
}

TEST_F(PictureStoreTest, DamageIsSeen) {
  { put_all(open()); }
  std::vector<uint8_t> whole = raw();
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint8_t> bad = whole;
    size_t at = round % 2 == 0 ? random() % (64 + 40 * kItems) : random() % bad.size();
    bad[at] = uint8_t(bad[at] ^ (1 << random() % 8));
    write_raw(bad);
    PictureStore store = open();
    for (uint64_t item = 0; item < kItems; ++item) {
      std::vector<uint8_t> head;
      auto found = store.find(item, 7, head);
      if (!found) continue;
      auto want = entry(item);
      ASSERT_EQ(found->size, want.size());
      ASSERT_TRUE(std::equal(head.begin(), head.end(), want.begin())) << "byte " << at;
    }
  }
}

TEST_F(PictureStoreTest, AnotherFileUnderItsNameIsReplaced) {
  { put_all(open()); }
  EXPECT_FALSE(get(open(kItems + 1), 3, 7)) << "another source's";
  std::ofstream(path_) << "something else";
  PictureStore store = open();
  EXPECT_FALSE(get(store, 3, 7));
  put_all(store);
  EXPECT_EQ(get(store, 3, 7), entry(3));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(PictureStoreTest, WhatIsReplacedGivesItsRoomBack) {
  int probe = ::open((folder_.string() + "/probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(probe, 1 << 16), 0);
  bool punches = ::fallocate(probe, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 16) == 0;
  ::close(probe);
  if (!punches) GTEST_SKIP() << "this file system makes no holes";
  PictureStore store = open(), reader = open();
  std::vector<uint8_t> bytes(100'000, 3), head;
  store.put(1, 7, bytes, 8);
  auto old = reader.find(1, 7, head);
  ASSERT_TRUE(old);
  for (uint64_t stamp = 8; stamp < 50; ++stamp) {  // the picture changes, again and again
    store.put(0, stamp, bytes, 8);
    store.put(1, stamp, bytes, 8);
  }
  EXPECT_TRUE(store.find(0, 49, head) && store.find(1, 49, head)) << "the budget is ten such entries";
  EXPECT_LT(store.figures().bytes, uint64_t{1} << 20);
  std::vector<uint8_t> now(bytes.size());
  ASSERT_TRUE(reader.read(*old, 0, now));
  EXPECT_NE(now, bytes) << "who had found the old one reads zeros, which do not have its hashes";
}

TEST_F(PictureStoreTest, KeepsToItsBudget) {
  PictureStore store = open(kItems, 64 + 40 * kItems + 3000);
  put_all(store);
  auto figures = store.figures();
  EXPECT_LE(figures.bytes, 64 + 40 * kItems + 3000);
  EXPECT_GT(figures.entries, 3U);
  EXPECT_LT(figures.entries, kItems);
  EXPECT_EQ(get(store, 0, 7), entry(0)) << "what there is stays";
  PictureStore larger = open();
  put_all(larger);
  EXPECT_EQ(larger.figures().entries, kItems);
}

TEST_F(PictureStoreTest, AFullDiskOnlyEndsTheWriting) {
  PictureStore store = open();
  store.put(0, 7, entry(0), 8);
  auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  rlimit small{64 + 40 * kItems + 1000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  put_all(store, 1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, before);
  put_all(store, 1);
  EXPECT_EQ(get(store, 0, 7), entry(0));
  EXPECT_FALSE(get(store, kItems - 1, 7));
  EXPECT_LT(store.figures().bytes, 64 + 40 * kItems + 1100);
}

}  // namespace
}  // namespace stoker::pipeline
