// SPDX-License-Identifier: Apache-2.0
// From container files to a manifest of the pictures in them. Pure but for reading files and the cache.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "pipeline/manifest.h"
#include "pipeline/tar_index.h"

namespace stoker::pipeline {

// Tar shards in the order given. Shared: any thread, const.
class TarShards {
 public:
  static Result<TarShards> open(const std::vector<std::string>& paths, const Clock& clock = system_clock());

  const std::vector<OpenShard>& shards() const { return shards_; }
  uint64_t samples() const { return starts_.back(); }
  struct At {
    size_t shard;
    uint64_t sample;
  };
  At at(uint64_t sample) const;  // sample < samples(), counted over all shards
  Result<std::vector<uint8_t>> read(size_t shard, const TarIndex::Member& member) const;

  struct Picked {
    Manifest manifest;
    std::vector<uint64_t> samples;  // which of samples() each item is; empty where it is all of them
  };
  // An item per sample that has a picture (a member whose field is the first of `pictures` that there is)
  // and, unless `label` is "", a label (an integer as text). A sample without: an error that names it, or
  // left out where `skip_incomplete`. Paths in the manifest are relative to `root` where they are below it.
  Result<Picked> pick(const std::vector<std::string>& pictures, const std::string& label,
                      bool skip_incomplete, std::string_view root) const;

 private:
  std::vector<OpenShard> shards_;
  std::vector<uint64_t> starts_{0};
};

// TFRecord files in the order given: an item per record, its whole frame. Labels are in the records. Indexed
// once, as tar shards are; paths as there.
Result<Manifest> index_tfrecords(const std::vector<std::string>& paths, std::string_view root,
                                 const Clock& clock = system_clock());

}  // namespace stoker::pipeline
