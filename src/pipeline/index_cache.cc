// SPDX-License-Identifier: Apache-2.0
#include "pipeline/index_cache.h"

#include <stdlib.h>

#include <memory>

#include "base/files.h"
#include "base/hash.h"
#include "pipeline/manifest.h"

namespace stoker::pipeline {
namespace {
constexpr int64_t kCoarse_ns = 2'000'000'000;
}

IndexCache::IndexCache(std::string_view kind, const std::string& path, const FileStamp& stamp,
                       const Clock& clock)
    : settled_(stamp.mtime_ns < clock.wall_ms() * 1'000'000 - kCoarse_ns) {
  auto cache = cache_folder();
  if (!cache || !make_directories(*cache + "/indexes", 0700).ok()) return;
  std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  std::string key(kind);
  key.append(1, '\0').append(real ? real.get() : path.c_str()).append(1, '\0');
  key.append(std::to_string(stamp.size)).append(1, '\0').append(std::to_string(stamp.mtime_ns));
  at_ = *cache + "/indexes/" + sha256_hex(as_bytes(key));
}

std::optional<std::vector<uint8_t>> IndexCache::load() const {
  if (at_.empty()) return {};
  auto bytes = read_file(at_);
  if (!bytes) return {};
  return std::move(*bytes);
}

void IndexCache::keep(ByteView index) const {
  if (!at_.empty() && settled_) (void)write_file_atomic(at_, index, 0600);
}

}  // namespace stoker::pipeline
