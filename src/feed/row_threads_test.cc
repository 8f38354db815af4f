// SPDX-License-Identifier: Apache-2.0
#include "feed/row_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace stoker::feed {
namespace {
constexpr int64_t kMinute = 60'000'000'000;

// Rows are their item, twice: as int64 and as its lowest byte. Item 13 cannot be made; above 1000 a row waits
// for open().
class Squares final : public pipeline::Producer {
 public:
  Squares() {
    layout_.leaves = {{"wide", pipeline::DType::kInt64, {}, 8}, {"narrow", pipeline::DType::kUint8, {}, 1}};
  }
  const pipeline::RowLayout& layout() const override { return layout_; }
  uint64_t items() const override { return 2000; }
  Status produce(pipeline::SampleRef ref, std::span<uint8_t* const> rows,
                 pipeline::Scratch& scratch) const override {
    if (ref.item == 13) return invalid("item 13 is unlucky");
    if (ref.item > 1000) {
      std::unique_lock lock(mutex_);
      begun_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    }
    store_le(rows[0], ref.item);
    *rows[1] = static_cast<uint8_t>(ref.item);
    ++scratch.times.samples;
    return ok();
  }
  void open() const {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_until_begun() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_; });
  }

 private:
  pipeline::RowLayout layout_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool open_ = false, begun_ = false;
};

std::vector<Ref> refs(uint64_t first, uint64_t rows) {
  std::vector<Ref> out;
  for (uint64_t i = 0; i < rows; ++i) out.push_back({first + i, (first + i) % 12});
  return out;
}
const RowBatch* wait_for(RowThreads& threads, uint64_t number) {
  return threads.front(monotonic_ns() + kMinute, number);
}
std::vector<uint64_t> rows_of(const RowBatch& batch) {
  std::vector<uint64_t> out;
  for (size_t i = 0; i < batch.refs.size(); ++i) {
    uint64_t wide = load_le<uint64_t>(batch.block->bytes().data() + batch.places.leaf_offsets[0] + 8 * i);
    EXPECT_EQ(batch.block->bytes()[batch.places.leaf_offsets[1] + i], wide & 255);
    out.push_back(wide);
  }
  return out;
}

TEST(RowThreads, GiveBatchesInOrderWithTheDigestOfTheirRows) {
  Squares squares;
  for (int count : {1, 3}) {
    RowThreads threads(squares, {.threads = count});
    Hash128 expected;
    for (uint64_t j = 0; j < 20; ++j) ASSERT_TRUE(threads.push(j, refs(7 * j, 7), 0).ok());
    for (uint64_t j = 0; j < 20; ++j) {
      const RowBatch* batch = wait_for(threads, j);
      ASSERT_TRUE(batch && batch->block);
      for (size_t i = 0; i < 7; ++i) {
        EXPECT_EQ(rows_of(*batch)[i], (7 * j + i) % 12);
        uint64_t item = (7 * j + i) % 12;
        uint8_t wide[8], narrow = static_cast<uint8_t>(item);
        store_le(wide, item);
        uint64_t hashes[] = {block_hash(wide), block_hash({&narrow, 1})};
        expected += row_term(batch->refs[i], Sha256Digest{}, row_hash(hashes, 2));
      }
      EXPECT_EQ(threads.figures(j + 1).digest, expected) << "a batch counts once it is taken";
    }
    EXPECT_EQ(threads.figures(20).times.samples, 140u);
    EXPECT_EQ(threads.front(1, 20), nullptr) << "nothing is outstanding";
  }
}

TEST(RowThreads, AnErrorIsOfItsBatchAlone) {
  Squares squares;
  RowThreads threads(squares, {.threads = 2});
  ASSERT_TRUE(threads.push(0, {{100, 1}, {101, 13}, {102, 2}}, 0).ok());
  ASSERT_TRUE(threads.push(1, refs(103, 2), 0).ok());
  const RowBatch* failed = wait_for(threads, 0);
  ASSERT_TRUE(failed && failed->fault);
  EXPECT_EQ(failed->fault->position, 101u);
  EXPECT_EQ(failed->fault->item, 13u);
  const RowBatch* next = wait_for(threads, 1);
  ASSERT_TRUE(next && next->block);
  EXPECT_EQ(next->refs.front().position, 103u);
}

TEST(RowThreads, KeptBatchesKeepTheirBytesAndDroppedOnesAreUsedAgain) {
  Squares squares;
  RowThreads threads(squares, {.threads = 1, .free_blocks = 2});
  std::vector<BlockRef> kept;
  for (uint64_t j = 0; j < 10; ++j) {
    ASSERT_TRUE(threads.push(j, refs(j, 1), j).ok());
    kept.push_back(wait_for(threads, j)->block);
  }
  for (uint64_t j = 0; j < 10; ++j) EXPECT_EQ(kept[j]->bytes()[0], j);
  uint64_t held = threads.figures(10).block_bytes;
  kept.clear();
  EXPECT_EQ(threads.figures(10).block_bytes, held / 5) << "two wait to be used again";
  for (uint64_t j = 10; j < 100; ++j) {
    ASSERT_TRUE(threads.push(j, refs(j, 1), j).ok());
    ASSERT_TRUE(wait_for(threads, j)->block);
  }
  EXPECT_EQ(threads.figures(100).block_bytes, held / 5);
}

TEST(RowThreads, MakesAheadNoMoreThanTheWindow) {
  Squares squares;
  RowThreads threads(squares, {.threads = 2, .window_bytes = 300});  // a batch of one row takes 128 bytes
  for (uint64_t j = 0; j < 4; ++j) ASSERT_TRUE(threads.push(j, refs(j, 1), 0).ok());
  ASSERT_TRUE(wait_for(threads, 0));
  ASSERT_TRUE(threads.push(4, {{4, 1500}}, 0).ok());
  EXPECT_LE(threads.figures(0).times.samples, 2u);
  for (uint64_t j = 0; j < 4; ++j) ASSERT_TRUE(wait_for(threads, j));
  squares.open();
  ASSERT_TRUE(wait_for(threads, 4));
  RowThreads narrow(squares, {.threads = 1, .window_bytes = 1});  // what is wanted next is always made
  for (uint64_t j = 0; j < 3; ++j) ASSERT_TRUE(narrow.push(j, refs(j, 1), 0).ok());
  for (uint64_t j = 0; j < 3; ++j) ASSERT_TRUE(wait_for(narrow, j));
}

TEST(RowThreads, WhatIsDroppedEndsAtItsNextRow) {
  Squares squares;
  RowThreads threads(squares, {.threads = 1});
  ASSERT_TRUE(threads.push(0, {{0, 1500}, {1, 1}, {2, 2}}, 0).ok());
  ASSERT_TRUE(threads.push(1, refs(3, 2), 0).ok());
  squares.wait_until_begun();
  EXPECT_EQ(threads.front(1, 0), nullptr);
  EXPECT_EQ(threads.drop(0), 2u);
  ASSERT_TRUE(threads.push(2, refs(5, 1), 2).ok());
  ASSERT_TRUE(threads.push(2, refs(5, 1), 2).ok()) << "again, which is no other batch";
  squares.open();
  EXPECT_EQ(rows_of(*wait_for(threads, 2)), std::vector<uint64_t>{5});
  EXPECT_EQ(threads.front(1, 3), nullptr);
  EXPECT_EQ(threads.figures(3).times.samples, 2u) << "of the dropped batches one row was made";
  threads.stop();
  EXPECT_EQ(threads.push(3, refs(6, 1), 3).error().code, Code::kCancelled);
}

TEST(Blocks, OfAForkAreItsOwn) {
  auto pool = BlockPool::make(2, 1 << 20);
  BlockRef block = *pool->take(100);
  block->bytes()[0] = 7;
  pid_t child = fork();
  if (child == 0) {
    bool kept = block->bytes()[0] == 7;
    block.reset();  // goes back to nobody
    _exit(kept && pool->bytes_held() == 4096 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stoker::feed
