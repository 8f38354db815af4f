// SPDX-License-Identifier: Apache-2.0
#include "pipeline/encoded.h"

#include "pipeline/example.h"
#include "pipeline/plan.h"
#include "pipeline/random_access.h"
#include "pipeline/tfrecord.h"

namespace stoker::pipeline {

Result<Encoded> encoded_of_record(ByteView frame, const std::string& path, uint64_t offset,
                                  const ImageSource& source) {
  STOKER_ASSIGN(ByteView data, record_data(frame, path, offset));
  auto bad = [&](const std::string& why) { return damaged("corrupt", path, offset, why); };
  auto picture = find_feature(data, source.picture);
  if (!picture) return bad(picture.error().message);
  if (!*picture) return bad("the record has no feature \"" + source.picture + "\"");
  auto pictures = std::get_if<std::vector<ByteView>>(&(*picture)->values);
  if (!pictures || pictures->size() != 1) {
    return bad("the feature \"" + source.picture + "\" is not one picture" +
               (pictures ? " but " + std::to_string(pictures->size()) : ": it holds no bytes"));
  }
  Encoded out{(*pictures)[0], -1, offset + static_cast<uint64_t>((*pictures)[0].data() - frame.data())};
  if (source.label.empty()) return out;
  auto label = find_feature(data, source.label);
  if (!label) return bad(label.error().message);
  auto labels = *label ? std::get_if<std::vector<int64_t>>(&(*label)->values) : nullptr;
  if (!labels || labels->size() != 1)
    return bad("the record has no feature \"" + source.label + "\" of one integer");
  out.label = (*labels)[0];
  return out;
}

}  // namespace stoker::pipeline
