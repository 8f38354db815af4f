// SPDX-License-Identifier: Apache-2.0
// TFRecord files of any bytes: walked by their lengths, each record's checksum tried, each taken apart as an
// Example whether or not it holds.
#include "pipeline/example.h"
#include "pipeline/tfrecord.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stoker;
  using namespace stoker::pipeline;
  ByteView all(data, size);
  auto walked = for_each_record(MemoryAccess(all), "fuzz", [&](RecordFrame frame) {
    CHECK(frame.offset <= size && frame.length <= size - frame.offset);
    (void)record_data(all.subspan(frame.offset, frame.length), "fuzz", frame.offset);
  });
  CHECK(walked.ok() || walked.error().fault.has_value());
  // Checksums keep a fuzzer out: the Example reader gets the bytes as they are.
  auto features = parse_example(all);
  if (!features) return 0;
  for (const Feature& feature : *features) {
    auto found = find_feature(all, feature.name);
    CHECK(found.ok() && found->has_value() && (*found)->values.index() == feature.values.index());
  }
  return 0;
}
