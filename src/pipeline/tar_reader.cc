// SPDX-License-Identifier: Apache-2.0
#include "pipeline/tar_reader.h"

#include <algorithm>
#include <charconv>

namespace stoker::pipeline {
namespace {

constexpr uint64_t kBlock = 512;
constexpr size_t kWindow = 16 << 10;
constexpr uint64_t kMaxExtension = 1 << 20;  // a name, or a set of pax records
constexpr uint64_t kMaxSize = uint64_t{1} << 62;
constexpr size_t kMaxPieces = 1 << 16;

uint64_t padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// Octal digits between spaces or NULs, or GNU's base 256 (first bit set).
std::optional<uint64_t> number(const uint8_t* field, size_t width) {
  uint64_t value = 0;
  if (field[0] & 0x80) {
    if (field[0] != 0x80) return {};  // negative, or over 2^62
    for (size_t i = 1; i < width; ++i) {
      if (value >> 54) return {};
      value = value << 8 | field[i];
    }
    return value;
  }
  size_t at = 0;
  while (at < width && field[at] == ' ') ++at;
  for (; at < width && field[at] != 0 && field[at] != ' '; ++at) {
    if (field[at] < '0' || field[at] > '7' || value >> 58) return {};
    value = value << 3 | (field[at] - uint64_t{'0'});
  }
  return value;
}

std::string text(const uint8_t* field, size_t width) {
  return {reinterpret_cast<const char*>(field), strnlen(reinterpret_cast<const char*>(field), width)};
}

bool sums_up(const uint8_t* header) {
  auto stated = number(header + 148, 8);
  if (!stated) return false;
  uint64_t sum = 0;
  int64_t signed_sum = 0;  // what some old writers made
  for (size_t i = 0; i < kBlock; ++i) {
    uint8_t byte = i >= 148 && i < 156 ? uint8_t{' '} : header[i];
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  return *stated == sum || static_cast<int64_t>(*stated) == signed_sum;
}

bool zero(const uint8_t* block) {
  return std::all_of(block, block + kBlock, [](uint8_t byte) { return byte == 0; });
}

bool has_data(uint8_t type) { return type < '1' || type > '6'; }
bool is_regular(uint8_t type) { return type == '0' || type == 0 || type == '7' || type == 'S'; }

struct Piece {
  uint64_t at, size;
};

// GNU's old form: four pieces in the header, 21 in each extension block behind it. `block_at` gives a block
// by its offset; `after` becomes the offset behind the last extension block.
template <typename BlockAt>
Result<std::vector<Piece>> pieces_of(const uint8_t* header, uint64_t header_at, const std::string& name,
                                     BlockAt&& block_at, uint64_t& after) {
  std::vector<Piece> pieces;
  uint64_t end = 0;
  auto take = [&](const uint8_t* field, uint64_t at) -> Status {
    auto offset = number(field, 12), size = number(field + 12, 12);
    if (!offset || !size || *offset < end || *size > kMaxSize || *offset > kMaxSize)
      return damaged("corrupt", name, at, "the map of a sparse member does not rise");
    if (*size > 0) pieces.push_back({*offset, *size});
    end = *offset + *size;
    return ok();
  };
  for (int i = 0; i < 4 && header[386 + 24 * i] != 0; ++i) STOKER_TRY(take(header + 386 + 24 * i, header_at));
  bool more = header[482] != 0;
  after = header_at + kBlock;
  while (more) {
    if (pieces.size() > kMaxPieces)
      return damaged("too_large", name, header_at, "a sparse member of more than 65536 pieces");
    STOKER_ASSIGN(const uint8_t* block, block_at(after));
    for (int i = 0; i < 21 && block[24 * i] != 0; ++i) STOKER_TRY(take(block + 24 * i, after));
    more = block[504] != 0;
    after += kBlock;
  }
  return pieces;
}

}  // namespace

struct TarReader::Extension {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
  bool sparse = false;
};

Status TarReader::read(uint64_t offset, MutableBytes into) {
  if (offset > bytes_.size() || into.size() > bytes_.size() - offset)
    return bad("truncated", bytes_.size(), "the archive ends before what it states");
  bool inside = offset >= window_at_ && offset + into.size() <= window_at_ + window_.size();
  if (!inside) {
    if (into.size() > kWindow) return bytes_.read(offset, into);
    window_at_ = offset;
    window_.resize(static_cast<size_t>(std::min<uint64_t>(kWindow, bytes_.size() - offset)));
    STOKER_TRY(bytes_.read(window_at_, window_));
  }
  if (!into.empty()) std::memcpy(into.data(), window_.data() + (offset - window_at_), into.size());
  return ok();
}

// The pointer is good until the next read.
Result<TarReader::Block> TarReader::block(uint64_t at) {
  uint64_t left = at < bytes_.size() ? bytes_.size() - at : 0;
  if (left < kBlock) return bad("truncated", bytes_.size(), "the archive ends inside a header");
  uint8_t probe[1];
  if (at < window_at_ || at + kBlock > window_at_ + window_.size()) window_.clear();
  STOKER_TRY(read(at, probe));
  return window_.data() + (at - window_at_);
}

// Of the blocks behind an extension header at at_, which is moved past them.
Result<std::string> TarReader::extension_text(uint64_t size) {
  if (size > kMaxExtension) return bad("too_large", at_, "a name or a pax header of over 1 MiB");
  std::string out(size, '\0');
  STOKER_TRY(read(at_ + kBlock, {reinterpret_cast<uint8_t*>(out.data()), out.size()}));
  at_ += kBlock + padded(size);
  return out;
}

// Records of the form "LENGTH KEY=VALUE\n", LENGTH counting the whole of it.
Status TarReader::apply_pax(const std::string& records, Extension& extension) const {
  std::string_view left = records;
  while (!left.empty() && left[0] != '\0') {
    size_t length = 0;
    auto [end, failed] = std::from_chars(left.data(), left.data() + left.size(), length);
    auto digits = static_cast<size_t>(end - left.data());
    if (failed != std::errc() || digits == 0 || length <= digits + 2 || length > left.size() ||
        left[digits] != ' ' || left[length - 1] != '\n')
      return bad("corrupt", at_, "a pax header of another form than LENGTH KEY=VALUE");
    std::string_view record = left.substr(digits + 1, length - digits - 2);
    left.remove_prefix(length);
    size_t equals = record.find('=');
    if (equals == record.npos) return bad("corrupt", at_, "a pax record without =");
    std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extension.name = std::string(value);
    if (key.starts_with("GNU.sparse.")) extension.sparse = true;
    if (key == "size") {
      uint64_t size = 0;
      auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (error != std::errc() || last != value.data() + value.size() || size > kMaxSize)
        return bad("corrupt", at_, "a pax header states a size that is no number");
      extension.size = size;
    }
  }
  return ok();
}

// At a zero block: the archive is over, whatever follows.
Result<std::optional<TarMember>> TarReader::end(uint64_t at) {
  at_ = bytes_.size();
  closed_ = true;
  while (at < bytes_.size() && !trailing_) {
    uint8_t piece[kBlock] = {};
    size_t size = static_cast<size_t>(std::min<uint64_t>(kBlock, bytes_.size() - at));
    STOKER_TRY(read(at, {piece, size}));
    trailing_ = !zero(piece);
    at += kBlock;
  }
  return std::optional<TarMember>();
}

Status TarReader::measure_sparse(Block header, TarMember& member, uint64_t& stored) {
  auto real = number(header + 483, 12);
  if (!real || *real > kMaxSize) return bad("corrupt", member.header, "a sparse member without a size");
  std::vector<uint8_t> copy(header, header + kBlock);  // the window moves
  uint64_t after = 0;
  STOKER_ASSIGN(auto pieces,
                pieces_of(
                    copy.data(), member.header, name_, [&](uint64_t at) { return block(at); }, after));
  uint64_t sum = 0;
  for (const Piece& piece : pieces) {
    if (piece.at + piece.size > *real || piece.size > stored - sum)
      return bad("corrupt", member.header, "a sparse member's pieces pass its size");
    sum += piece.size;
  }
  if (sum != stored) return bad("corrupt", member.header, "a sparse member's pieces do not give its size");
  member.size = *real;
  member.data = after;
  member.sparse = true;
  return ok();
}

Result<std::optional<TarMember>> TarReader::next() {
  Extension extension;
  bool extended = false;
  while (true) {
    if (closed_) return std::optional<TarMember>();
    if (at_ > bytes_.size())
      return bad("truncated", bytes_.size(), "the archive ends inside the padding behind its last member");
    if (at_ == bytes_.size()) {
      if (bytes_.size() == 0) return bad("empty", 0, "no bytes");
      if (extended) return bad("truncated", at_, "the archive ends after a header that extends the next");
      return std::optional<TarMember>();  // no closing blocks, otherwise whole
    }
    if (at_ == 0 && bytes_.size() < kBlock) return bad("not_tar", 0, "shorter than a tar header");
    STOKER_ASSIGN(Block header, block(at_));
    if (zero(header)) {
      if (extended) return bad("corrupt", at_, "the archive ends after a header that extends the next");
      return end(at_ + kBlock);
    }
    if (!sums_up(header)) {
      return at_ == 0 ? bad("not_tar", 0, "the first block is no tar header")
                      : bad("corrupt", at_, "a header's checksum is wrong");
    }
    auto size = number(header + 124, 12);
    if (!size || *size > kMaxSize) return bad("truncated", at_, "a member states an impossible size");
    uint8_t type = header[156];
    if (type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K') {
      STOKER_ASSIGN(std::string records, extension_text(*size));
      if (type == 'x' || type == 'X') STOKER_TRY(apply_pax(records, extension));
      if (type == 'L') extension.name = records.substr(0, records.find('\0'));
      extended = extended || type != 'g';  // a global header may end an archive
      continue;
    }
    TarMember member;
    member.header = at_;
    member.data = at_ + kBlock;
    if (extension.name) {
      member.name = *extension.name;
    } else {
      bool ustar = std::equal(header + 257, header + 263, "ustar") && type != 'S';
      std::string prefix = ustar ? text(header + 345, 155) : "";
      member.name = (prefix.empty() ? "" : prefix + "/") + text(header, 100);
    }
    // Before pax and ustar a folder was a file whose name ends in a slash.
    bool folder = type == 0 && member.name.ends_with('/');
    uint64_t stored = extension.size.value_or(*size);
    member.size = stored;
    member.regular = is_regular(type) && !folder;
    if (extension.sparse && member.regular)
      return bad("unsupported", at_,
                 member.name + ": a sparse file of pax; make the archive with --format=gnu");
    if (type == 'S') STOKER_TRY(measure_sparse(header, member, stored));
    if (!has_data(type) || folder) stored = 0;
    if (stored > bytes_.size() || member.data > bytes_.size() - stored) {
      return bad(
          "truncated", bytes_.size(),
          "the archive ends inside " + member.name + ", a member of " + std::to_string(stored) + " bytes");
    }
    at_ = member.data + padded(stored);
    return std::optional<TarMember>(std::move(member));
  }
}

Result<std::vector<uint8_t>> read_sparse(const RandomAccess& bytes, const std::string& name, uint64_t header,
                                         uint64_t most) {
  uint8_t block[kBlock], extra[kBlock];
  auto read = [&](uint64_t at, MutableBytes into) -> Status {
    if (at > bytes.size() || into.size() > bytes.size() - at)
      return damaged("truncated", name, at, "the archive ends inside a sparse member");
    return bytes.read(at, into);
  };
  STOKER_TRY(read(header, block));
  auto real = number(block + 483, 12);
  if (!sums_up(block) || !real) return damaged("corrupt", name, header, "no header of a sparse member");
  if (*real > most)
    return damaged("too_large", name, header, "a member of " + std::to_string(*real) + " bytes");
  uint64_t at = 0;
  auto block_at = [&](uint64_t offset) -> Result<const uint8_t*> {
    STOKER_TRY(read(offset, extra));
    return static_cast<const uint8_t*>(extra);
  };
  STOKER_ASSIGN(auto pieces, pieces_of(block, header, name, block_at, at));
  std::vector<uint8_t> out(*real);
  for (const Piece& piece : pieces) {
    if (piece.at > out.size() || piece.size > out.size() - piece.at)
      return damaged("corrupt", name, header, "a sparse member's pieces pass its size");
    STOKER_TRY(read(at, {out.data() + piece.at, piece.size}));
    at += piece.size;
  }
  return out;
}

}  // namespace stoker::pipeline
