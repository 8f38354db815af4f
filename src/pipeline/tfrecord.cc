// SPDX-License-Identifier: Apache-2.0
#include "pipeline/tfrecord.h"

#include <algorithm>
#include <vector>

#include "base/crc32c.h"

namespace stoker::pipeline {
namespace {

constexpr size_t kHead = 12;  // length and its checksum
constexpr size_t kWindow = 64 << 10;

bool length_holds(const uint8_t* head) { return load_le<uint32_t>(head + 8) == masked_crc32c({head, 8}); }

Error wrong_length(const std::string& name, uint64_t offset) {
  return damaged("corrupt_length", name, offset, "a record's length does not match its checksum");
}

}  // namespace

Status for_each_record(const RandomAccess& bytes, const std::string& name,
                       const std::function<void(RecordFrame)>& found) {
  std::vector<uint8_t> window;  // records are often small: one read brings many of their heads
  uint64_t window_at = 0;
  for (uint64_t at = 0; at < bytes.size();) {
    uint64_t left = bytes.size() - at;
    if (left < kHead) return damaged("truncated", name, at, "the file ends inside a record's length");
    if (at < window_at || at + kHead > window_at + window.size()) {
      window_at = at;
      window.resize(static_cast<size_t>(std::min<uint64_t>(kWindow, left)));
      STOKER_TRY(bytes.read(at, window));
    }
    const uint8_t* head = window.data() + (at - window_at);
    if (!length_holds(head)) return wrong_length(name, at);
    auto length = load_le<uint64_t>(head);
    if (left < kRecordOverhead || length > left - kRecordOverhead) {
      return damaged("truncated", name, at,
                     "a record states " + std::to_string(length) + " bytes of data, the file has " +
                         std::to_string(left > kRecordOverhead ? left - kRecordOverhead : 0) + " more");
    }
    found({at, length + kRecordOverhead});
    at += length + kRecordOverhead;
  }
  return ok();
}

Result<ByteView> record_data(ByteView frame, const std::string& name, uint64_t offset) {
  if (frame.size() < kRecordOverhead) return damaged("truncated", name, offset, "shorter than a record");
  if (!length_holds(frame.data()) || load_le<uint64_t>(frame.data()) != frame.size() - kRecordOverhead)
    return wrong_length(name, offset);
  ByteView data = frame.subspan(kHead, frame.size() - kRecordOverhead);
  if (load_le<uint32_t>(data.data() + data.size()) != masked_crc32c(data))
    return damaged("corrupt_data", name, offset, "a record's data does not match its checksum");
  return data;
}

}  // namespace stoker::pipeline
