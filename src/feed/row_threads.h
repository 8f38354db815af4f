// SPDX-License-Identifier: Apache-2.0
// RowThreads: batches of rows that threads of this process make ahead of who takes them, in order. For
// producers whose rows are memory already, where asking another process costs more than the row
// (docs/decisions/array-threads.md).
//
// Shared: push(), front() and drop() by one thread at a time, the rest by any. No thread of it takes Python's
// lock. A batch is made by one thread, whole; it begins when fewer than `window_bytes` are made and not
// taken, the one that is wanted next always. Each side sleeps until the other has something for it, and is
// woken once per batch at most.
//
// Batches are numbered from 0 in the order of push(). Who takes them keeps the number of the next one,
// `wanted`, and says it with each call: what is below has been taken, and counts in the digest. So there is
// no moment at which a batch is taken for one side and not for the other.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "feed/blocks.h"
#include "feed/protocol.h"
#include "pipeline/producer.h"

namespace stoker::feed {

// Where the rows of each leaf begin in a block, and how large it is.
struct RowPlaces {
  std::vector<uint64_t> leaf_offsets;
  uint64_t bytes = 0;
};
RowPlaces row_places(const pipeline::RowLayout& layout, uint64_t rows);

struct RowsMade {
  Status status;
  size_t failed = 0;  // the row that did, where status is not ok
  Hash128 term;       // of the stream digest, where hashed
};
// Rows into memory laid out by row_places(), on this thread; each hashed while it is in cache, where `plan`
// is given. Gives up with kCancelled once `stop` is set.
RowsMade make_rows(const pipeline::Producer& producer, std::span<const Ref> refs, uint8_t* base,
                   const RowPlaces& places, const Sha256Digest* plan, pipeline::Scratch& scratch,
                   const std::atomic<bool>* stop = nullptr);

// What such rows cost, without the clock's own part in it: as long as a quick row.
pipeline::StageTimes without_clock(pipeline::StageTimes times, const pipeline::Producer& producer);

struct RowBatch {
  std::vector<Ref> refs;
  RowPlaces places;
  BlockRef block;              // the rows, unless
  std::optional<Fault> fault;  // one could not be made
  Hash128 term;
};

struct RowThreadFigures {
  pipeline::StageTimes times;  // up to each thread's last finished batch, as the next
  int64_t cpu_ns = 0;
  uint64_t block_bytes = 0;  // memory held, also by batches that the user keeps
  Hash128 digest;            // of all that was taken
};

class RowThreads {
 public:
  struct Options {
    int threads = 1;
    Sha256Digest plan{};
    uint64_t window_bytes = uint64_t{256} << 20;
    uint64_t keep_bytes = uint64_t{1} << 30;  // of batches that the user keeps; a warning past it
    size_t free_blocks = 4;                   // that are kept for later batches
  };

  RowThreads(const pipeline::Producer& producer, Options options);  // `producer` must outlive it
  ~RowThreads();                                                    // stop()

  // Asks for batch `number`, the next one; one that was pushed already is not pushed again: who was
  // interrupted may not know. Starts the threads, the first time. kCancelled after stop().
  Status push(uint64_t number, std::vector<Ref> refs, uint64_t wanted);
  // Batch number `wanted`, made or failed; waits for it until the deadline (0: not at all): then null. Valid
  // until `wanted` grows.
  const RowBatch* front(int64_t deadline_monotonic_ns, uint64_t wanted);
  // Nothing that was pushed is wanted any more. Returns the number of what is pushed next.
  uint64_t drop(uint64_t wanted);
  RowThreadFigures figures(uint64_t wanted);
  void stop();  // waits for the rows that are being made, not for their batches; batches stay valid

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stoker::feed
