// SPDX-License-Identifier: Apache-2.0
// The wire form: a message is a run of fields, each a varint (number << 3 | kind) and a value. Example{1:
// Features}, Features{1: entries of a map {1: name, 2: Feature}}, Feature{1: BytesList | 2: FloatList | 3:
// Int64List}, each list{1: values}, numbers packed or not.
#include "pipeline/example.h"

#include <algorithm>
#include <bit>

namespace stoker::pipeline {
namespace {

constexpr size_t kMaxFeatures = 4096;
enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  Kind kind = kVarint;
  uint64_t value = 0;  // of the numeric kinds
  ByteView bytes;      // of kBytes
};

// Reads the fields of one message, whose offset in the record is for errors.
class Message {
 public:
  Message(ByteView bytes, const uint8_t* record)
      : at_(bytes.data()), end_(at_ + bytes.size()), record_(record) {}
  bool over() const { return at_ == end_; }

  Result<Field> next() {
    STOKER_ASSIGN(uint64_t tag, varint());
    Field field{static_cast<uint32_t>(tag >> 3), static_cast<Kind>(tag & 7), 0, {}};
    if (tag >> 32 || field.number == 0) return bad("a field of impossible number");
    switch (field.kind) {
      case kVarint: {
        STOKER_ASSIGN(field.value, varint());
        return field;
      }
      case kBytes: {
        STOKER_ASSIGN(uint64_t size, varint());
        if (size > left()) return bad("a field that passes its end");
        field.bytes = {at_, static_cast<size_t>(size)};
        at_ += size;
        return field;
      }
      case kFixed64:
      case kFixed32: {
        size_t size = field.kind == kFixed64 ? 8 : 4;
        if (size > left()) return bad("a number that passes its end");
        field.value = size == 8 ? load_le<uint64_t>(at_) : load_le<uint32_t>(at_);
        at_ += size;
        return field;
      }
    }
    return bad("a field of unknown kind");
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) return bad("a number that passes its end");
      uint8_t byte = *at_++;
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    return bad("a number of over ten bytes");
  }

  Error bad(const char* what) const {
    Error error{Code::kData, std::string("the record is no tf.train.Example: it holds ") + what, {}};
    error.fault = DataFault{"corrupt", "", at_ - record_};
    return error;
  }

 private:
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }
  const uint8_t* at_;
  const uint8_t* end_;
  const uint8_t* record_;
};

Status read_list(uint32_t kind, ByteView list, const uint8_t* record, Feature& out) {
  // A list that comes in pieces goes on where it was, as protobuf merges it.
  if (kind == 1 && out.values.index() != 1) out.values.emplace<1>();
  if (kind == 2 && out.values.index() != 2) out.values.emplace<2>();
  if (kind == 3 && out.values.index() != 3) out.values.emplace<3>();
  Message message(list, record);
  while (!message.over()) {
    STOKER_ASSIGN(Field field, message.next());
    if (field.number != 1) continue;
    if (kind == 1) {
      if (field.kind != kBytes) return message.bad("a bytes list of another kind");
      std::get<1>(out.values).push_back(field.bytes);
    } else if (kind == 2) {
      auto& values = std::get<2>(out.values);
      if (field.kind == kFixed32) {
        auto word = static_cast<uint32_t>(field.value);
        values.push_back(std::bit_cast<float>(word));
      } else if (field.kind == kBytes && field.bytes.size() % 4 == 0) {
        for (size_t i = 0; i < field.bytes.size(); i += 4) values.push_back(load_le<float>(&field.bytes[i]));
      } else {
        return message.bad("a float list of another kind");
      }
    } else {
      auto& values = std::get<3>(out.values);
      if (field.kind == kVarint) {
        values.push_back(static_cast<int64_t>(field.value));
      } else if (field.kind == kBytes) {
        Message packed(field.bytes, record);
        while (!packed.over()) {
          STOKER_ASSIGN(uint64_t value, packed.varint());
          values.push_back(static_cast<int64_t>(value));
        }
      } else {
        return message.bad("an integer list of another kind");
      }
    }
  }
  return ok();
}

Result<Feature> read_feature(std::string_view name, ByteView bytes, const uint8_t* record) {
  Feature out{name, {}};
  Message message(bytes, record);
  while (!message.over()) {
    STOKER_ASSIGN(Field field, message.next());
    if (field.number < 1 || field.number > 3) continue;
    if (field.kind != kBytes) return message.bad("a feature that is no list");
    STOKER_TRY(read_list(field.number, field.bytes, record, out));
  }
  return out;
}

// Calls entry(name, bytes of the Feature) for each of the map.
template <typename Entry>
Status for_each_entry(ByteView record, Entry&& entry) {
  Message example(record, record.data());
  size_t count = 0;
  while (!example.over()) {
    STOKER_ASSIGN(Field features, example.next());
    if (features.number != 1) continue;
    if (features.kind != kBytes) return example.bad("features that are no message");
    Message map(features.bytes, record.data());
    while (!map.over()) {
      STOKER_ASSIGN(Field pair, map.next());
      if (pair.number != 1) continue;
      if (pair.kind != kBytes || ++count > kMaxFeatures)
        return map.bad("a map that is none, or of over 4096 features");
      std::string_view name;
      ByteView value;
      Message fields(pair.bytes, record.data());
      while (!fields.over()) {
        STOKER_ASSIGN(Field field, fields.next());
        if (field.number > 2) continue;
        if (field.kind != kBytes) return fields.bad("a feature without a name");
        if (field.number == 1) {
          name = as_text(field.bytes);
        } else {
          value = field.bytes;
        }
      }
      STOKER_TRY(entry(name, value));
    }
  }
  return ok();
}

}  // namespace

Result<std::vector<Feature>> parse_example(ByteView bytes) {
  std::vector<Feature> out;
  STOKER_TRY(for_each_entry(bytes, [&](std::string_view name, ByteView value) -> Status {
    STOKER_ASSIGN(Feature feature, read_feature(name, value, bytes.data()));
    auto same = std::find_if(out.begin(), out.end(), [&](const Feature& f) { return f.name == name; });
    if (same == out.end()) {
      out.push_back(std::move(feature));
    } else {
      *same = std::move(feature);
    }
    return ok();
  }));
  return out;
}

Result<std::optional<Feature>> find_feature(ByteView bytes, std::string_view wanted) {
  std::optional<ByteView> found;
  STOKER_TRY(for_each_entry(bytes, [&](std::string_view name, ByteView value) -> Status {
    if (name == wanted) found = value;
    return ok();
  }));
  if (!found) return std::optional<Feature>();
  STOKER_ASSIGN(Feature feature, read_feature(wanted, *found, bytes.data()));
  return std::optional<Feature>(std::move(feature));
}

}  // namespace stoker::pipeline
