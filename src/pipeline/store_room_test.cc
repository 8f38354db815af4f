// SPDX-License-Identifier: Apache-2.0
#include "pipeline/store_room.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "base/test_folder.h"
#include "pipeline/picture_store.h"

namespace stoker::pipeline {
namespace {

namespace fs = std::filesystem;

class StoreRoomTest : public testing::Test {
 protected:
  static constexpr uint64_t kItems = 20, kEntry = 50'000, kTable = 64 + 40 * kItems;
  static constexpr uint64_t kTotal = 1'000'000;

  // Stores are named by a hex digit here.
  std::string path(char letter) const { return folder_.path() + "/" + std::string(32, letter); }
  PictureStore open(char letter, uint64_t total = kTotal) {
    auto store = PictureStore::open(path(letter), kItems, 1 << 30, total);
    EXPECT_TRUE(store.ok()) << store.error().message;
    return std::move(*store);
  }
  static void put(const PictureStore& store, uint64_t count, uint64_t from = 0) {
    std::vector<uint8_t> bytes(kEntry, 3);
    for (uint64_t item = from; item < count; ++item) store.put(item, 7, bytes, 8);
  }
  static uint64_t kept(const PictureStore& store) { return store.figures().entries; }
  // One that is closed again, used so many seconds ago.
  void make(char letter, uint64_t count, int ago_s, uint64_t total = kTotal) {
    put(open(letter, total), count);
    used(path(letter), ago_s);
  }
  static void used(const std::string& file, int ago_s) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::seconds(ago_s));
  }
  std::string names() const {
    std::set<char> letters;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      letters.insert(entry.path().filename().string()[0]);
    return {letters.begin(), letters.end()};
  }
  uint64_t taken() const {
    uint64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      struct stat st;
      if (stat(entry.path().c_str(), &st) == 0) sum += room_of(st);
    }
    return sum;
  }

  TestFolder folder_;
};

TEST_F(StoreRoomTest, WhatWasUsedLeastRecentlyGoesFirst) {
  make('a', 6, 300), make('b', 6, 500), make('c', 6, 400);
  EXPECT_EQ(names(), "abc");
  PictureStore store = open('d');
  put(store, 6);
  EXPECT_EQ(kept(store), 6U);
  EXPECT_EQ(names(), "acd");
  EXPECT_LE(taken(), kTotal);
  put(store, 12, 6);
  EXPECT_EQ(names(), "ad");
  EXPECT_LE(taken(), kTotal);
}

TEST_F(StoreRoomTest, OpeningAStoreIsAUse) {
  make('a', 9, 500), make('b', 9, 400);
  EXPECT_EQ(kept(open('a')), 9U);
  put(open('c'), 9);
  EXPECT_EQ(names(), "ac");
}

TEST_F(StoreRoomTest, OneThatIsOpenStays) {
  make('a', 9, 500), make('b', 9, 400);
  PictureStore read = open('a');
  used(path('a'), 500);
  PictureStore written = open('c');
  put(written, 9);
  EXPECT_EQ(names(), "ac");
  EXPECT_EQ(kept(read), 9U);
  PictureStore late = open('d');
  put(late, 9);
  EXPECT_EQ(kept(late), 1U) << "both others are open: it keeps what fits";
  EXPECT_EQ(names(), "acd");
  EXPECT_LE(taken(), kTotal);
}

TEST_F(StoreRoomTest, NothingGoesForWhatCannotFit) {
  make('a', 6, 500);
  PictureStore open_one = open('b');
  put(open_one, 6);
  StoreRoom room(folder_.path(), kTotal);
  EXPECT_FALSE(room.make(kTotal));
  EXPECT_FALSE(room.make(kTotal + 1));
  EXPECT_EQ(names(), "ab");
  EXPECT_TRUE(room.make(kTotal / 2));
  EXPECT_EQ(names(), "b");
}

TEST_F(StoreRoomTest, OnlyStoresGo) {
  fs::path folder = folder_.path();
  std::ofstream(folder / "photo.jpg") << std::string(900'000, 'x');
  std::ofstream(folder / std::string(32, 'e')) << std::string(900'000, 'x');
  make('a', 9, 500);
  fs::rename(path('a'), folder / "renamed");
  fs::create_symlink(folder / "renamed", path('f'));
  make('b', 9, 500);
  put(open('c'), 15);
  EXPECT_EQ(names(), "cefpr");
}

TEST_F(StoreRoomTest, WhatAKilledMakerLeftGoesToo) {
  make('a', 9, 500);
  fs::rename(path('a'), path('a') + ".QWERTZ");
  put(open('c'), 15);
  EXPECT_EQ(names(), "c");
}

TEST_F(StoreRoomTest, AProcessThatIsKilledHoldsNothing) {
  make('a', 9, 500);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    auto store = PictureStore::open(path('a'), kItems, 1 << 30, kTotal);
    (void)!::write(ready[1], store.ok() ? "y" : "n", 1);
    for (;;) pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  StoreRoom room(folder_.path(), kTotal);
  EXPECT_FALSE(room.make(700'000)) << "it is open there";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(room.make(700'000));
  EXPECT_EQ(names(), "");
  close(ready[0]), close(ready[1]);
}

TEST_F(StoreRoomTest, OneThatIsRemovedWhileItIsOpenedIsMadeAnew) {
  make('a', 3, 500);
  UniqueFd old = std::move(*open_file(path('a'), O_RDWR));
  fs::remove(path('a'));
  EXPECT_EQ(hold_store(old.get(), path('a')), Held::kRemoved);
  PictureStore store = open('a');
  EXPECT_EQ(kept(store), 0U);
  EXPECT_EQ(hold_store(old.get(), path('a')), Held::kRemoved) << "the name is another's now";
}

TEST_F(StoreRoomTest, OneThatIsBeingRemovedIsNotWaitedForLong) {
  make('a', 3, 500);
  UniqueFd remover = std::move(*open_file(path('a'), O_RDWR));
  ASSERT_EQ(flock(remover.get(), LOCK_EX), 0);
  auto store = PictureStore::open(path('a'), kItems, 1 << 30, kTotal);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, Code::kUnavailable);
}

TEST_F(StoreRoomTest, AMakerThatIsStoppedHoldsNobodyUp) {
  make('a', 9, 500);
  UniqueFd stopped = std::move(*open_file(folder_.path(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(flock(stopped.get(), LOCK_EX), 0);
  EXPECT_TRUE(StoreRoom(folder_.path(), kTotal).make(700'000));
  EXPECT_EQ(names(), "");
}

TEST_F(StoreRoomTest, SeveralGrowAtOnceWithinTheTotal) {
  for (char letter : std::string("abcdef")) make(letter, 3, 500);
  std::vector<std::thread> threads;
  std::barrier begun(4);  // two that are done before the others begin leave them no room
  for (char letter : std::string("0123")) {
    threads.emplace_back([&, letter] {
      PictureStore store = open(letter);
      put(store, 1);
      begun.arrive_and_wait();
      put(store, kItems, 1);
      EXPECT_GT(kept(store), 0U);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(taken(), kTotal + 4 * (StoreRoom(folder_.path(), kTotal).step() + kEntry));
  EXPECT_GT(taken(), kTotal / 2);
}

TEST_F(StoreRoomTest, ByDefaultHalfOfTheDiskIsTheirs) {
  make('a', 3, 500, StoreRoom::kHalfOfTheDisk);
  StoreRoom room(folder_.path(), StoreRoom::kHalfOfTheDisk);
  uint64_t free = fs::space(folder_.path()).available;
  EXPECT_TRUE(room.make(1));
  EXPECT_EQ(names(), "a");
  EXPECT_FALSE(room.make(2 * free));
  EXPECT_EQ(names(), "a");
}

TEST_F(StoreRoomTest, TheEndOfHalfOfTheDiskIsToldOnce) {
  bool mounted = false;
  testing::internal::CaptureStderr();
  std::thread([&] {  // whose mounts end with it
    if (unshare(CLONE_FS | CLONE_NEWNS) != 0) return;
    mounted = mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              mount("none", folder_.path().c_str(), "tmpfs", 0, "size=1m") == 0;
    if (!mounted) return;
    for (int again = 0; again < 2; ++again) put(open('a', StoreRoom::kHalfOfTheDisk), kItems);
    EXPECT_LE(taken(), 600'000U);
  })
      .join();
  const std::string log = testing::internal::GetCapturedStderr();
  if (!mounted) GTEST_SKIP() << "mounts need root";
  const auto told = log.find("all of this folder may take half of the disk together");
  ASSERT_NE(told, log.npos) << log;
  EXPECT_EQ(log.find("no more", told), log.npos) << log;
}

}  // namespace
}  // namespace stoker::pipeline
