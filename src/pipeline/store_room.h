// SPDX-License-Identifier: Apache-2.0
// StoreRoom: the room that all picture stores of one folder have together. Whoever wants more of it asks
// first; then stores that nobody has open go, those used least recently first. Only files that are picture
// stores, by name and by what they begin with, count and go. A value; any thread, any process.
//
// Who has a store open holds a shared lock of it (flock), which ends with the process however that ends. A
// store is removed by whoever gets its exclusive lock at once, by one unlink(): killed before or behind it,
// nothing is half.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/files.h"

namespace stoker::pipeline {

inline constexpr char kStoreMagic[8] = {'S', 'T', 'K', 'P', 'I', 'C', 'S', '1'};

class StoreRoom {
 public:
  static constexpr uint64_t kHalfOfTheDisk = 0;

  // kHalfOfTheDisk: half of what stores in the folder take and its disk has free, looked up each time.
  StoreRoom(std::string folder, uint64_t total_bytes)
      : folder_(std::move(folder)), total_bytes_(total_bytes) {}

  // Removes stores until `bytes` more fit; false, and removes none, if that would not do.
  bool make(uint64_t bytes) const;
  // How much to ask for at a time: so far each process may be over the total.
  uint64_t step() const;
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  std::string folder_;
  uint64_t total_bytes_;
};

// What a file takes: its holes do not count.
uint64_t room_of(const struct stat& st);

enum class Held { kYes, kRemoved, kBusy };
// Takes the shared lock, for as long as the descriptor is open, and notes that the store is used now.
// kRemoved: `path` is not its name any more; kBusy: somebody is about to remove it.
Held hold_store(int store, const std::string& path);
void note_use(int store);

}  // namespace stoker::pipeline
