// SPDX-License-Identifier: Apache-2.0
#include "pipeline/tar_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/hash.h"
#include "pipeline/index_cache.h"
#include "pipeline/tar_reader.h"

namespace stoker::pipeline {
namespace {

constexpr std::string_view kMagic = "STOKTAR2";
constexpr size_t kHeaderBytes = 96;
enum Word {
  kCheck = 1,
  kSize,
  kTime,
  kPlain,
  kSamples,
  kMembers,
  kFields,
  kFieldBytes,
  kKeyBytes,
  kLeftOut,
  kRepeated
};
constexpr uint64_t kTrailing = uint64_t{1} << 63;  // bits of kRepeated
constexpr uint64_t kUnclosed = uint64_t{1} << 62;

uint8_t* put(uint8_t* at, const void* from, size_t size) {
  if (size > 0) std::memcpy(at, from, size);
  return at + size;
}

}  // namespace

std::optional<MemberName> split_member_name(std::string_view name) {
  size_t last = name.rfind('/') + 1;  // 0 where there is none
  std::string_view part = name.substr(last);
  if (part.starts_with("__") && part.ends_with("__")) return {};
  size_t dot = part.find('.');
  if (dot == part.npos) return {};
  if (dot == 0) {
    // WebDataset's pattern then takes the folder's name for the base, unless that has a dot too.
    if (last == 0) return {};
    std::string_view folder = name.substr(0, last - 1);
    folder.remove_prefix(folder.rfind('/') + 1);
    if (folder.find('.') != folder.npos) return {};
  }
  MemberName out{name.substr(0, last + dot), std::string(part.substr(dot + 1))};
  for (char& c : out.field)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Result<TarIndex> TarIndex::build(const Container& shard) {
  static_assert(sizeof(Member) == 40 && sizeof(Start) == 16);
  TarReader reader(*shard.bytes, shard.path);
  std::vector<Start> starts;
  std::vector<Member> members;
  std::map<std::string, uint32_t, std::less<>> field_numbers;
  std::vector<std::string> fields;
  std::unordered_set<std::string> seen;
  std::string keys, current;
  uint64_t left_out = 0, repeated = 0;
  while (true) {
    STOKER_ASSIGN(auto member, reader.next());
    if (!member) break;
    if (!member->regular) {
      left_out += split_member_name(member->name) && !member->name.ends_with('/');
      continue;
    }
    auto name = split_member_name(member->name);
    if (!name) continue;
    if (starts.empty() || name->base != current) {
      current = name->base;
      starts.push_back({members.size(), keys.size()});
      keys += current;
      repeated += !seen.insert(current).second;
    }
    auto number = field_numbers.try_emplace(name->field, static_cast<uint32_t>(fields.size())).first;
    if (number->second == fields.size()) fields.push_back(name->field);
    for (size_t i = starts.back().member; i < members.size(); ++i) {
      if (members[i].field == number->second)
        return damaged("duplicate_field", shard.path, member->header,
                       "the sample " + current + " has two members " + name->field);
    }
    Member entry{member->sparse ? member->header : member->data, member->size, number->second,
                 member->sparse};
    if (entry.is_inlined()) STOKER_TRY(reader.read(entry.offset, {entry.inlined, entry.length}));
    members.push_back(entry);
  }
  uint64_t samples = starts.size();
  starts.push_back({members.size(), keys.size()});

  std::string names;
  std::vector<uint64_t> field_starts{0};
  for (const std::string& field : fields) {
    names += field;
    field_starts.push_back(names.size());
  }
  uint64_t words[12] = {
      0,
      0,
      shard.stamp.size,
      static_cast<uint64_t>(shard.stamp.mtime_ns),
      shard.bytes->size(),
      samples,
      members.size(),
      fields.size(),
      names.size(),
      keys.size(),
      left_out,
      repeated | (reader.has_trailing() ? kTrailing : 0) | (reader.is_closed() ? 0 : kUnclosed)};
  static_assert(sizeof words == kHeaderBytes);
  std::vector<uint8_t> bytes(kHeaderBytes + sizeof(Start) * starts.size() + sizeof(Member) * members.size() +
                             8 * field_starts.size() + names.size() + keys.size());
  std::memcpy(words, kMagic.data(), 8);
  uint8_t* at = put(bytes.data(), words, sizeof words);
  at = put(at, starts.data(), sizeof(Start) * starts.size());
  at = put(at, members.data(), sizeof(Member) * members.size());
  at = put(at, field_starts.data(), 8 * field_starts.size());
  at = put(at, names.data(), names.size());
  put(at, keys.data(), keys.size());
  store_le(&bytes[8 * kCheck], xxh3_64(ByteView(bytes).subspan(16)));
  return from_bytes(std::move(bytes), shard.path);
}

Result<TarIndex> TarIndex::from_bytes(std::vector<uint8_t> given, const std::string& name) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(given));
  TarIndex index;
  index.owner_ = owner;
  index.bytes_ = ByteView(*owner);
  ByteView bytes = index.bytes_;
  auto refuse = [&](const char* why) {
    return damaged("corrupt", name, 0, std::string("tar index: ") + why);
  };
  if (bytes.size() < kHeaderBytes || as_text(bytes.first(8)) != kMagic) return refuse("no such magic");
  if (index.header(kCheck) != xxh3_64(bytes.subspan(16))) return refuse("its hash does not match");
  uint64_t samples = index.header(kSamples), members = index.header(kMembers), fields = index.header(kFields);
  uint64_t field_bytes = index.header(kFieldBytes), key_bytes = index.header(kKeyBytes);
  uint64_t most = bytes.size();
  if (samples > most || members > most || fields > most || field_bytes > most || key_bytes > most ||
      kHeaderBytes + sizeof(Start) * (samples + 1) + sizeof(Member) * members + 8 * (fields + 1) +
              field_bytes + key_bytes !=
          most)
    return refuse("its counts do not give its size");
  const uint8_t* at = bytes.data() + kHeaderBytes;
  index.starts_ = {reinterpret_cast<const Start*>(at), samples + 1};
  at += sizeof(Start) * (samples + 1);
  index.members_ = {reinterpret_cast<const Member*>(at), members};
  at += sizeof(Member) * members;
  index.field_starts_ = {reinterpret_cast<const uint64_t*>(at), fields + 1};
  index.fields_ = reinterpret_cast<const char*>(at + 8 * (fields + 1));
  index.keys_ = index.fields_ + field_bytes;
  Start before{0, 0};
  for (const Start& start : index.starts_) {
    if (start.member < before.member || start.key < before.key || start.member > members ||
        start.key > key_bytes)
      return refuse("its starts do not rise");
    before = start;
  }
  if (index.starts_.front().member != 0 || before.member != members || before.key != key_bytes)
    return refuse("its starts do not reach its sizes");
  if (index.field_starts_.front() != 0 || index.field_starts_.back() != field_bytes ||
      !std::is_sorted(index.field_starts_.begin(), index.field_starts_.end()))
    return refuse("the starts of its fields do not rise");
  uint64_t plain = index.header(kPlain);
  for (const Member& member : index.members_) {
    bool inside = member.offset <= plain && (member.sparse || member.length <= plain - member.offset);
    if (member.field >= fields || member.sparse > 1 || !inside) return refuse("a member lies outside");
  }
  return index;
}

std::string_view TarIndex::key(uint64_t sample) const {
  return {keys_ + starts_[sample].key, starts_[sample + 1].key - starts_[sample].key};
}
std::string_view TarIndex::field(const Member& member) const {
  uint64_t from = field_starts_[member.field];
  return {fields_ + from, field_starts_[member.field + 1] - from};
}
uint64_t TarIndex::shard_bytes() const { return header(kPlain); }
uint64_t TarIndex::left_out() const { return header(kLeftOut); }
uint64_t TarIndex::repeated_keys() const { return header(kRepeated) & ~(kTrailing | kUnclosed); }
bool TarIndex::has_trailing() const { return header(kRepeated) & kTrailing; }
bool TarIndex::is_closed() const { return !(header(kRepeated) & kUnclosed); }
FileStamp TarIndex::stamp() const { return {header(kSize), static_cast<int64_t>(header(kTime))}; }

Result<OpenShard> open_tar(const std::string& path, const Clock& clock) {
  STOKER_ASSIGN(Container shard, open_container(path));
  IndexCache cache("tar", path, shard.stamp, clock);
  if (auto bytes = cache.load()) {
    auto index = TarIndex::from_bytes(std::move(*bytes), path);
    if (index && index->stamp() == shard.stamp && index->shard_bytes() == shard.bytes->size())
      return OpenShard{std::move(shard), std::move(*index), true};
  }
  STOKER_ASSIGN(TarIndex index, TarIndex::build(shard));
  cache.keep(index.bytes());
  return OpenShard{std::move(shard), std::move(index), false};
}

}  // namespace stoker::pipeline
