// SPDX-License-Identifier: Apache-2.0
#include "pipeline/item_reader.h"

#include <deque>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/hash.h"
#include "pipeline/file_reader.h"

namespace stoker::pipeline {
namespace {
constexpr size_t kMostOpen = 256;  // descriptors that one reader keeps
constexpr int64_t kCoarse_ns = 2'000'000'000;
static_assert(sizeof(FileState) == 24, "no gaps: it is hashed");
}  // namespace

struct ItemReader::Containers {
  struct State {
    std::vector<std::shared_ptr<const RandomAccess>> open;  // by file; shared with reads that are going on
    std::deque<uint64_t> opened;                            // the oldest first
  };
  Guarded<State> state;
};

ItemReader::ItemReader(Manifest manifest, std::string root)
    : manifest_(std::move(manifest)), root_(std::move(root)) {
  if (!manifest_.has_extents()) return;
  containers_ = std::make_unique<Containers>();
  containers_->state.with([&](Containers::State& state) { state.open.resize(manifest_.files()); });
}
ItemReader::~ItemReader() = default;
ItemReader::ItemReader(ItemReader&&) noexcept = default;

std::string ItemReader::file_path(uint64_t file) const {
  std::string_view name = manifest_.file(file);
  if (name[0] == '/') return std::string(name);
  std::string out;
  out.reserve(root_.size() + 1 + name.size());
  return out.append(root_).append("/").append(name);
}

std::string ItemReader::path(uint64_t item) const {
  return file_path(manifest_.has_extents() ? manifest_.extent(item).file : item);
}

Result<std::shared_ptr<const RandomAccess>> ItemReader::container(uint64_t file) const {
  auto there = containers_->state.with([&](Containers::State& state) { return state.open[file]; });
  if (there) return there;
  std::string path = file_path(file);
  auto opened = open_container(path);
  if (!opened) {
    Error error = std::move(opened).error();
    if (!error.fault) error.code = Code::kUnavailable;  // here and now; another machine may have it
    return error;
  }
  std::shared_ptr<const RandomAccess> bytes = std::move(opened->bytes);
  if (bytes->size() != manifest_.file_size(file)) {
    return damaged("corrupt", path, 0,
                   "it has " + std::to_string(bytes->size()) + " bytes and had " +
                       std::to_string(manifest_.file_size(file)) +
                       " when it was indexed; make the source anew");
  }
  return containers_->state.with([&](Containers::State& state) {
    if (!state.open[file]) {
      state.open[file] = bytes;
      state.opened.push_back(file);
      if (state.opened.size() > kMostOpen) {
        state.open[state.opened.front()].reset();
        state.opened.pop_front();
      }
    }
    return bytes;
  });
}

Result<ByteView> ItemReader::read(uint64_t item, std::vector<uint8_t>& buffer) const {
  if (!manifest_.has_extents()) return read_sample_file(path(item), buffer);
  const Extent& extent = manifest_.extent(item);
  if (extent.length > kMaxSampleFileBytes) {
    return damaged("too_large", path(item), extent.offset,
                   std::to_string(extent.length) + " bytes; the limit for a sample is 1 GiB");
  }
  STOKER_ASSIGN(auto bytes, container(extent.file));
  if (buffer.size() < extent.length) buffer.resize(extent.length);
  MutableBytes into(buffer.data(), extent.length);
  STOKER_TRY(bytes->read(extent.offset, into));
  return ByteView(into);
}

std::optional<ItemStamp> ItemReader::stamp(uint64_t item) const {
  std::optional<FileState> state;
  if (!manifest_.has_extents()) {
    state = file_state(path(item));
  } else if (auto bytes = container(manifest_.extent(item).file)) {
    state = (*bytes)->state();
  }
  if (!state) return {};
  ItemStamp stamp;
  stamp.value = xxh3_64({reinterpret_cast<const uint8_t*>(&*state), sizeof *state});
  stamp.settled = state->mtime_ns < system_clock().wall_ms() * 1'000'000 - kCoarse_ns;
  return stamp;
}

void ItemReader::will_need(uint64_t item) const {
  if (!manifest_.has_extents()) return will_read_sample_file(path(item));
  const Extent& extent = manifest_.extent(item);
  if (auto bytes = container(extent.file)) (*bytes)->will_need(extent.offset, extent.length);
}

}  // namespace stoker::pipeline
