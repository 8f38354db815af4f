// SPDX-License-Identifier: Apache-2.0
// Request targets from anybody: split without harm; what is encoded comes back.
#include "base/bytes.h"
#include "http/message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = stoker::as_text({data, size});
  std::string path;
  stoker::http::Query query;
  stoker::http::split_target(text, path, query);
  CHECK(path.size() <= size);
  CHECK(stoker::http::percent_decode(stoker::http::percent_encode(text)) == text);
  return 0;
}
