// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "api/test_exchange.h"

namespace stoker::api {
namespace {

TEST(Router, PathsMethodsAndWhoMay) {
  Router router;
  std::vector<std::string> seen;
  router.add("GET", "/v1/jobs/{job}", Access::kOwner,
             [&](http::ExchangePtr exchange, const Router::Parameters& p) {
               seen = p;
               exchange->respond({200, {}, ""});
             });
  int me = static_cast<int>(getuid());
  EXPECT_EQ(status(router, "GET", "/v1/jobs/a-1", me), 200);
  EXPECT_EQ(seen, std::vector<std::string>{"a-1"});
  EXPECT_EQ(status(router, "GET", "/v1/jobs/a-1", me + 1), 403);
  EXPECT_EQ(status(router, "GET", "/v1/jobs/a-1", -1), 403);
  EXPECT_EQ(status(router, "POST", "/v1/jobs/a-1", me), 422);
  EXPECT_EQ(status(router, "GET", "/v1/jobs", me), 404);
  EXPECT_EQ(status(router, "GET", "/v1/jobs/a/b", me), 404);
}

}  // namespace
}  // namespace stoker::api
