// SPDX-License-Identifier: Apache-2.0
#include "pipeline/picture_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "base/log.h"

namespace stoker::pipeline {
namespace {

constexpr uint64_t kHeaderBytes = 64;
constexpr uint64_t kToldAt = 16;  // the limit whose end was told
constexpr uint64_t kEntryBytes = 40;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of an entry
constexpr uint64_t kMostHead = uint64_t{16} << 20;
constexpr uint64_t kMostItems = uint64_t{1} << 40;
constexpr int kTries = 50, kMostMade = 2;  // of opening, while others remove or replace it

bool read_at(int fd, uint64_t at, MutableBytes into) {
  while (!into.empty()) {
    ssize_t n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    into = into.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return true;
}

bool write_at(int fd, uint64_t at, ByteView bytes) {
  ssize_t n = 0;
  do n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
  while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(bytes.size());
}

uint64_t end_of_table(uint64_t items) { return (kHeaderBytes + items * kEntryBytes + 63) / 64 * 64; }

bool is_store(int fd, uint64_t items) {
  uint8_t header[kHeaderBytes];
  struct stat st;
  return fstat(fd, &st) == 0 && static_cast<uint64_t>(st.st_size) >= end_of_table(items) &&
         read_at(fd, 0, header) && std::memcmp(header, kStoreMagic, sizeof kStoreMagic) == 0 &&
         load_le<uint64_t>(header + 8) == items;
}

std::string in_mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// A new store appears whole, under its name or in the place of what is none.
Status make_store(const std::string& path, uint64_t items, bool replace) {
  std::string beside = path + ".XXXXXX";
  UniqueFd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return errno_error("making " + path, errno);
  (void)::flock(fd.get(), LOCK_SH | LOCK_NB);  // or it might go as one that nobody finished
  uint8_t header[kHeaderBytes] = {};
  std::memcpy(header, kStoreMagic, sizeof kStoreMagic);
  store_le(header + 8, items);
  Status made = ok();
  if (!write_at(fd.get(), 0, header) || ::ftruncate(fd.get(), static_cast<off_t>(end_of_table(items))) != 0)
    made = errno_error("making " + path, errno);
  if (made.ok() && !replace && ::link(beside.c_str(), path.c_str()) != 0 && errno != EEXIST)
    replace = true;  // a file system without links: who comes last wins
  if (made.ok() && replace) {
    if (::rename(beside.c_str(), path.c_str()) == 0) return ok();
    made = errno_error("making " + path, errno);
  }
  ::unlink(beside.c_str());
  return made;
}

uint64_t check_of(const uint8_t* entry, uint64_t item) { return xxh3_64({entry, kEntryBytes - 8}, item); }

}  // namespace

PictureStore::PictureStore(std::string path, UniqueFd table, UniqueFd log, uint64_t items,
                           uint64_t budget_bytes, StoreRoom room)
    : path_(std::move(path)),
      table_(std::move(table)),
      log_(Log{std::move(log)}),
      items_(items),
      budget_bytes_(budget_bytes),
      room_(std::move(room)) {}

PictureStore::~PictureStore() {
  if (table_) note_use(table_.get());
}

PictureStore::PictureStore(PictureStore&& other) noexcept
    : path_(std::move(other.path_)),
      table_(std::move(other.table_)),
      log_(other.log_.with([](Log& log) { return std::move(log); })),
      items_(other.items_),
      budget_bytes_(other.budget_bytes_),
      room_(std::move(other.room_)),
      full_(other.full_.load()) {}

Result<PictureStore> PictureStore::open(const std::string& path, uint64_t items, uint64_t budget_bytes,
                                        uint64_t total_bytes) {
  if (items > kMostItems) return invalid("a store for " + std::to_string(items) + " pictures");
  StoreRoom room(path.substr(0, path.rfind('/')), total_bytes);
  int made = 0;
  for (int tries = 0; tries < kTries; ++tries) {
    UniqueFd table(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!table && errno != ENOENT) return errno_error("opening " + path, errno);
    if (!table || !is_store(table.get(), items)) {
      // Another process may put another one there in between.
      if (made++ == kMostMade) return unavailable("opening " + path + ": others make something else of it");
      STOKER_TRY(make_store(path, items, static_cast<bool>(table)));
      continue;
    }
    Held held = hold_store(table.get(), path);
    if (held == Held::kBusy) ::usleep(1000);
    if (held != Held::kYes) continue;
    // By its descriptor, so that both are of the same file.
    UniqueFd log(
        ::open(("/proc/self/fd/" + std::to_string(table.get())).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    if (!log) return errno_error("opening " + path, errno);
    return PictureStore(path, std::move(table), std::move(log), items, budget_bytes, std::move(room));
  }
  return unavailable("opening " + path + ": another process is removing it, and does not get on");
}

uint64_t PictureStore::data_at() const { return end_of_table(items_); }

std::optional<std::pair<PictureStore::Entry, uint64_t>> PictureStore::entry_of(
    uint64_t item, std::optional<uint64_t> stamp) const {
  uint8_t raw[kEntryBytes];
  if (item >= items_ || !read_at(table_.get(), kHeaderBytes + item * kEntryBytes, raw)) return {};
  if ((stamp && load_le<uint64_t>(raw) != *stamp) || load_le<uint64_t>(raw + 32) != check_of(raw, item))
    return {};
  Entry entry{load_le<uint64_t>(raw + 8), load_le<uint32_t>(raw + 16), load_le<uint32_t>(raw + 20)};
  if (entry.offset < data_at() || entry.offset >= uint64_t{1} << 62) return {};
  if (entry.size > kMostBytes || entry.head > entry.size || entry.head > kMostHead) return {};
  return std::pair(entry, load_le<uint64_t>(raw + 24));
}

std::optional<PictureStore::Entry> PictureStore::find(uint64_t item, uint64_t stamp,
                                                      std::vector<uint8_t>& head) const {
  auto found = entry_of(item, stamp);
  if (!found) return {};
  auto& [entry, hash] = *found;
  head.resize(entry.head);
  if (!read_at(table_.get(), entry.offset, head) || xxh3_64(head, stamp) != hash) return {};
  return entry;
}

bool PictureStore::read(const Entry& entry, size_t from, MutableBytes into) const {
  if (from > entry.size || into.size() > entry.size - from) return false;
  return read_at(table_.get(), entry.offset + from, into);
}

bool PictureStore::will_need(uint64_t item) const {
  uint8_t raw[kEntryBytes];
  if (item >= items_ || !read_at(table_.get(), kHeaderBytes + item * kEntryBytes, raw)) return false;
  auto at = static_cast<off_t>(load_le<uint64_t>(raw + 8));
  if (at == 0) return false;
  (void)posix_fadvise(table_.get(), at, static_cast<off_t>(load_le<uint32_t>(raw + 16)), POSIX_FADV_WILLNEED);
  return true;
}

// Asks for room of all stores in steps, since looking at each of them takes time.
bool PictureStore::may_grow(Log& log, uint64_t bytes) const {
  if (log.granted < bytes) {
    uint64_t step = std::max(bytes, room_.step());
    if (!room_.make(step) && (step == bytes || !room_.make(step = bytes))) return false;
    log.granted = step;
  }
  log.granted -= bytes;
  return true;
}

// Where they lie: the kernel gives each writer the file's end as it is, and tells it by the position after.
std::optional<uint64_t> PictureStore::append(ByteView bytes) const {
  return log_.with([&](Log& log) -> std::optional<uint64_t> {
    struct stat st;
    if (fstat(log.fd.get(), &st) != 0 || static_cast<uint64_t>(st.st_size) < data_at()) {
      stop("somebody has cut it", budget_bytes_);
      return {};
    }
    if (room_of(st) + bytes.size() > budget_bytes_) {
      stop("the budget of " + in_mib(budget_bytes_) + " is used", budget_bytes_);
      return {};
    }
    if (!may_grow(log, bytes.size())) {
      bool half = room_.total_bytes() == StoreRoom::kHalfOfTheDisk;
      stop("all of this folder may take " + (half ? "half of the disk" : in_mib(room_.total_bytes())) +
               " together, and the others are in use",
           room_.total_bytes());
      return {};
    }
    ssize_t n = ::write(log.fd.get(), bytes.data(), bytes.size());
    if (n != static_cast<ssize_t>(bytes.size())) {
      stop(n < 0 ? std::strerror(errno) : "the disk is full", budget_bytes_);
      return {};
    }
    return static_cast<uint64_t>(::lseek(log.fd.get(), 0, SEEK_CUR)) - bytes.size();
  });
}

void PictureStore::put(uint64_t item, uint64_t stamp, ByteView bytes, uint32_t head) const {
  if (full_ || item >= items_ || bytes.size() > kMostBytes || head > kMostHead) return;
  auto at = append(bytes);
  if (!at) return;
  auto replaced = entry_of(item, {});
  uint8_t raw[kEntryBytes];
  store_le(raw, stamp);
  store_le(raw + 8, *at);
  store_le(raw + 16, static_cast<uint32_t>(bytes.size()));
  store_le(raw + 20, head);
  store_le(raw + 24, xxh3_64(bytes.first(head), stamp));
  store_le(raw + 32, check_of(raw, item));
  if (!write_at(table_.get(), kHeaderBytes + item * kEntryBytes, raw))
    return stop(std::strerror(errno), budget_bytes_);
  // Nothing is written there again, unless the file was cut: what lies behind the new one is no older. Who
  // still reads there gets zeros, which do not have its hashes.
  if (replaced && replaced->first.size > 0 && replaced->first.offset + replaced->first.size <= *at)
    (void)::fallocate(table_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(replaced->first.offset), replaced->first.size);
}

// One of the processes says it.
void PictureStore::stop(const std::string& why, uint64_t limit) const {
  if (full_.exchange(true)) return;
  const uint64_t mark = limit == 0 ? ~uint64_t{0} : limit;  // a new store has 0 there
  uint8_t told[8] = {};
  if (read_at(table_.get(), kToldAt, told) && load_le<uint64_t>(told) == mark) return;
  store_le(told, mark);
  (void)write_at(table_.get(), kToldAt, told);
  log_line(LogLevel::kWarn, "pipeline",
           "the picture cache keeps what it has and no more: " + why + " (" + path_ + ")");
}

PictureStore::Figures PictureStore::figures() const {
  Figures figures;
  struct stat st;
  if (fstat(table_.get(), &st) == 0) figures.bytes = room_of(st);
  std::vector<uint8_t> raw(1024 * kEntryBytes);
  for (uint64_t item = 0; item < items_;) {
    uint64_t count = std::min<uint64_t>(1024, items_ - item);
    if (!read_at(table_.get(), kHeaderBytes + item * kEntryBytes, {raw.data(), count * kEntryBytes})) break;
    for (uint64_t i = 0; i < count; ++i, ++item) {
      const uint8_t* entry = &raw[i * kEntryBytes];
      figures.entries += load_le<uint64_t>(entry + 32) == check_of(entry, item);
    }
  }
  return figures;
}

}  // namespace stoker::pipeline
