// SPDX-License-Identifier: Apache-2.0
#include "pipeline/containers.h"

#include <algorithm>
#include <charconv>

#include "pipeline/file_reader.h"
#include "pipeline/index_cache.h"
#include "pipeline/tar_reader.h"
#include "pipeline/tfrecord.h"

namespace stoker::pipeline {
namespace {

std::optional<int64_t> integer(std::string_view text) {
  auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

Result<TarShards> TarShards::open(const std::vector<std::string>& paths, const Clock& clock) {
  TarShards out;
  for (const std::string& path : paths) {
    STOKER_ASSIGN(OpenShard shard, open_tar(path, clock));
    out.starts_.push_back(out.starts_.back() + shard.index.samples());
    out.shards_.push_back(std::move(shard));
  }
  return out;
}

TarShards::At TarShards::at(uint64_t sample) const {
  CHECK(sample < samples());
  auto shard =
      static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), sample) - starts_.begin() - 1);
  return {shard, sample - starts_[shard]};
}

Result<std::vector<uint8_t>> TarShards::read(size_t shard, const TarIndex::Member& member) const {
  const Container& container = shards_[shard].container;
  if (member.sparse) return read_sparse(*container.bytes, container.path, member.offset, kMaxSampleFileBytes);
  if (member.is_inlined()) return std::vector<uint8_t>(member.inlined, member.inlined + member.length);
  if (member.length > kMaxSampleFileBytes)
    return damaged("too_large", container.path, member.offset, "a member of over 1 GiB");
  std::vector<uint8_t> bytes(member.length);
  STOKER_TRY(container.bytes->read(member.offset, bytes));
  return bytes;
}

Result<TarShards::Picked> TarShards::pick(const std::vector<std::string>& pictures, const std::string& label,
                                          bool skip_incomplete, std::string_view root) const {
  ManifestBuilder builder;
  std::vector<uint64_t> kept;
  for (size_t s = 0; s < shards_.size(); ++s) {
    const auto& container = shards_[s].container;
    const auto& index = shards_[s].index;
    builder.add_file(path_under(root, container.path), index.shard_bytes());
    for (uint64_t i = 0; i < index.samples(); ++i) {
      auto members = index.members(i);
      auto find = [&](std::string_view field) {
        return std::find_if(members.begin(), members.end(),
                            [&](const auto& m) { return index.field(m) == field; });
      };
      auto picture = members.end();
      for (size_t k = 0; k < pictures.size() && picture == members.end(); ++k) picture = find(pictures[k]);
      auto labelled = label.empty() ? members.end() : find(label);
      auto where = [&] { return "the sample " + std::string(index.key(i)); };
      if (picture == members.end() || (!label.empty() && labelled == members.end())) {
        if (skip_incomplete) continue;
        std::string what = picture == members.end() ? "no picture (" : "no label (" + label;
        for (size_t k = 0; picture == members.end() && k < pictures.size(); ++k)
          what += (k ? ", " : "") + pictures[k];
        return damaged(
            "corrupt", container.path, members[0].offset,
            where() + " has " + what +
                "); name its members (image=, label=), or leave such samples out (missing=\"skip\")");
      }
      if (picture->sparse)
        return damaged("unsupported", container.path, picture->offset,
                       where() + " has its picture in a sparse file");
      int64_t number = -1;
      if (!label.empty()) {
        STOKER_ASSIGN(auto text, read(s, *labelled));
        auto value = integer(as_text(text));
        if (!value) {
          return damaged("corrupt", container.path, labelled->offset,
                         where() + " has a label (" + label + ") that is no integer");
        }
        number = *value;
      }
      builder.add_extent(picture->offset, picture->length, number);
      kept.push_back(starts_[s] + i);
    }
  }
  STOKER_ASSIGN(Manifest manifest, Manifest::from_bytes(builder.finish()));
  if (kept.size() == samples()) kept.clear();
  return Picked{std::move(manifest), std::move(kept)};
}

Result<Manifest> index_tfrecords(const std::vector<std::string>& paths, std::string_view root,
                                 const Clock& clock) {
  ManifestBuilder all;
  for (const std::string& path : paths) {
    STOKER_ASSIGN(Container file, open_container(path));
    IndexCache cache("tfrecord", path, file.stamp, clock);
    std::optional<Manifest> one;  // what is kept is a manifest of that file alone
    if (auto bytes = cache.load()) {
      auto kept = Manifest::from_bytes(std::move(*bytes));
      if (kept && kept->has_extents() && kept->files() == 1 && kept->file(0) == path &&
          kept->file_size(0) == file.bytes->size())
        one = std::move(*kept);
    }
    if (!one) {
      ManifestBuilder builder;
      builder.add_file(path, file.bytes->size());
      STOKER_TRY(for_each_record(
          *file.bytes, path, [&](RecordFrame frame) { builder.add_extent(frame.offset, frame.length, -1); }));
      STOKER_ASSIGN(Manifest made, Manifest::from_bytes(builder.finish()));
      cache.keep(made.bytes());
      one = std::move(made);
    }
    all.add_file(path_under(root, path), file.bytes->size());
    for (uint64_t i = 0; i < one->items(); ++i)
      all.add_extent(one->extent(i).offset, one->extent(i).length, -1);
  }
  return Manifest::from_bytes(all.finish());
}

}  // namespace stoker::pipeline
