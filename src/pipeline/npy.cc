// SPDX-License-Identifier: Apache-2.0
// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
#include "pipeline/npy.h"

#include <charconv>
#include <optional>

#include "pipeline/random_access.h"

namespace stoker::pipeline {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxDimensions = 32;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

// A reader of that one literal, no more. Each method gives nothing where the text is another.
class Literal {
 public:
  explicit Literal(std::string_view text) : left_(text) {}
  bool take(std::string_view word) {
    skip_spaces();
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip_spaces();
    if (left_.empty() || (left_[0] != '\'' && left_[0] != '"')) return {};
    size_t end = left_.find(left_[0], 1);
    if (end == left_.npos) return {};
    std::string_view inside = left_.substr(1, end - 1);
    left_.remove_prefix(end + 1);
    return inside;
  }
  std::optional<int64_t> whole() {
    skip_spaces();
    int64_t value = 0;
    auto [end, failed] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (failed != std::errc()) return {};
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    (void)take("L");  // Python 2
    return value;
  }
  bool only_spaces() {
    skip_spaces();
    return left_.empty();
  }

 private:
  void skip_spaces() {
    while (!left_.empty() && (left_[0] == ' ' || left_[0] == '\n' || left_[0] == '\t'))
      left_.remove_prefix(1);
  }
  std::string_view left_;
};

struct Described {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

std::optional<Described> read_literal(std::string_view text) {
  Literal in(text);
  Described out;
  int seen = 0;
  if (!in.take("{")) return {};
  while (!in.take("}")) {
    auto key = in.quoted();
    if (!key || !in.take(":")) return {};
    if (*key == "descr" && !(seen & 1)) {
      if (in.take("[")) return Described{"[", false, {}};  // records
      auto value = in.quoted();
      if (!value) return {};
      out.descr = *value, seen |= 1;
    } else if (*key == "fortran_order" && !(seen & 2)) {
      out.fortran = in.take("True");
      if (!out.fortran && !in.take("False")) return {};
      seen |= 2;
    } else if (*key == "shape" && !(seen & 4)) {
      if (!in.take("(")) return {};
      while (!in.take(")")) {
        auto side = in.whole();
        if (!side || *side < 0 || out.shape.size() == kMaxDimensions) return {};
        out.shape.push_back(*side);
        if (in.take(",")) continue;
        if (!in.take(")")) return {};
        break;
      }
      seen |= 4;
    } else {
      return {};
    }
    (void)in.take(",");
  }
  if (seen != 7 || !in.only_spaces()) return {};
  return out;
}

}  // namespace

Result<NpyHeader> read_npy_header(ByteView begin, const std::string& name) {
  std::string_view text = as_text(begin);
  if (begin.empty()) return damaged("empty", name, 0, "no bytes");
  if (!text.starts_with(kMagic))
    return damaged("corrupt", name, 0, "no .npy file: it does not begin with \\x93NUMPY");
  if (begin.size() < 12) return damaged("truncated", name, begin.size(), "it ends inside the header");
  uint8_t version = begin[6];
  if (version < 1 || version > 3)
    return damaged("unsupported", name, 6, ".npy of version " + std::to_string(version));
  size_t at = version == 1 ? 10 : 12;
  size_t size = version == 1 ? load_le<uint16_t>(&begin[8]) : load_le<uint32_t>(&begin[8]);
  if (size > kMaxNpyHeader - at) return damaged("too_large", name, 8, "a header of over 64 KiB");
  if (size > begin.size() - at) return damaged("truncated", name, begin.size(), "it ends inside the header");
  auto described = read_literal(text.substr(at, size));
  if (!described) return damaged("corrupt", name, at, "its header is not that of a .npy file");
  auto dtype = dtype_of_numpy(described->descr);
  if (!dtype) {
    return damaged("unsupported", name, at,
                   "elements of dtype " + described->descr + "; only little-endian numbers are read as rows");
  }
  if (described->fortran)
    return damaged("unsupported", name, at, "it is in Fortran order; save numpy.ascontiguousarray of it");
  if (described->shape.empty()) return damaged("unsupported", name, at, "a scalar, which has no rows");
  NpyHeader header{*dtype, described->shape, at + size, dtype_size(*dtype)};
  for (int64_t side : header.shape) {
    if (side != 0 && header.data_bytes > kMaxBytes / static_cast<uint64_t>(side))
      return damaged("too_large", name, at, "its shape has more than 2^48 bytes");
    header.data_bytes *= static_cast<uint64_t>(side);
  }
  return header;
}

}  // namespace stoker::pipeline
