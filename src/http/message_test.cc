// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gtest/gtest.h>

namespace stoker::http {

TEST(Message, TargetsAreSplitAndDecoded) {
  std::string path;
  Query query;
  split_target("/v1/jobs/a%2Fb/logs?group=x+y%26&follow&n=1", path, query);
  EXPECT_EQ(path, "/v1/jobs/a/b/logs");
  Query expected = {{"group", "x y&"}, {"follow", ""}, {"n", "1"}};
  EXPECT_EQ(query, expected);
  EXPECT_EQ(percent_decode("%4"), "%4");
  EXPECT_EQ(percent_decode("%zz"), "%zz");
  EXPECT_EQ(percent_decode(percent_encode("a b/ü?&=%")), "a b/ü?&=%");
}

TEST(Message, ErrorsSurviveTheWire) {
  for (Code code : {Code::kInvalid, Code::kNotFound, Code::kExists, Code::kDenied, Code::kUnavailable,
                    Code::kDeadline, Code::kNoSpace, Code::kNoMemory, Code::kUnsupported, Code::kData,
                    Code::kCancelled, Code::kInternal}) {
    Response response = error_response({code, "what happened", {}});
    Error back = error_of(response.status, response.body);
    EXPECT_EQ(back.code, code);
    EXPECT_EQ(back.message, "what happened");
  }
  EXPECT_EQ(error_of(404, "<html>").code, Code::kNotFound);
}

}  // namespace stoker::http
