// SPDX-License-Identifier: Apache-2.0
// PictureStore: what is kept beside the pictures of one source, by item, in one file that all processes of
// this machine share. docs/formats/picture-store.md is its format. Entries are appended and never moved; one
// counts only for the stamp of the picture that it was made of, and only if its checksums hold: a torn,
// damaged or old one is none. What another one replaces becomes a hole. Nobody waits for anybody, but for
// milliseconds where stores are removed (store_room.h). Shared: any thread, const.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/guarded.h"
#include "base/result.h"
#include "pipeline/store_room.h"

namespace stoker::pipeline {

class PictureStore {
 public:
  struct Entry {
    uint64_t offset = 0;
    uint32_t size = 0;
    uint32_t head = 0;  // bytes of it that the store itself verifies
  };

  // Makes the file where there is none, or one of something else. `budget_bytes`: the file takes no more than
  // that, but for an entry of each process at the same moment. `total_bytes`: nor do all stores in its
  // folder, see StoreRoom.
  static Result<PictureStore> open(const std::string& path, uint64_t items, uint64_t budget_bytes,
                                   uint64_t total_bytes = StoreRoom::kHalfOfTheDisk);
  PictureStore(PictureStore&&) noexcept;
  ~PictureStore();

  // The item's entry of that stamp, with its head in `head`.
  std::optional<Entry> find(uint64_t item, uint64_t stamp, std::vector<uint8_t>& head) const;
  // Bytes of an entry from `from` on, as they are. False if they are not there.
  bool read(const Entry& entry, size_t from, MutableBytes into) const;
  // Asks the kernel to read an entry ahead, of whatever stamp. False if there is none.
  bool will_need(uint64_t item) const;

  // Keeps an entry, if it can. When a budget or the disk is full, says so once and keeps no more.
  void put(uint64_t item, uint64_t stamp, ByteView bytes, uint32_t head) const;

  struct Figures {
    uint64_t entries = 0;
    uint64_t bytes = 0;  // that it takes
  };
  Figures figures() const;  // reads the whole table

 private:
  struct Log {
    UniqueFd fd;           // the same file, opened to be appended to
    uint64_t granted = 0;  // of the room of all stores
  };
  PictureStore(std::string path, UniqueFd table, UniqueFd log, uint64_t items, uint64_t budget_bytes,
               StoreRoom room);
  std::optional<std::pair<Entry, uint64_t>> entry_of(uint64_t item,
                                                     std::optional<uint64_t> stamp) const;  // any
  std::optional<uint64_t> append(ByteView bytes) const;
  bool may_grow(Log& log, uint64_t bytes) const;
  void stop(const std::string& why, uint64_t limit) const;
  uint64_t data_at() const;

  std::string path_;
  UniqueFd table_;  // read and written at any place; holds the lock
  mutable Guarded<Log> log_;
  uint64_t items_;
  uint64_t budget_bytes_;
  StoreRoom room_;
  mutable std::atomic<bool> full_ = false;
};

}  // namespace stoker::pipeline
