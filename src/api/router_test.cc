// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace stoker::api {
namespace {

class FakeExchange : public http::Exchange {
 public:
  explicit FakeExchange(http::Request request) : request_(std::move(request)) {}
  const http::Request& request() const override { return request_; }
  void respond(http::Response response) override { answer = std::move(response); }
  void begin_stream(int, const std::string&) override {}
  void write(std::string, std::function<void(bool)>) override {}
  void end_stream() override {}
  bool gone() const override { return false; }
  void when_gone(std::function<void()>) override {}
  http::Response answer;

 private:
  http::Request request_;
};

int status(const Router& router, const std::string& method, const std::string& path, int uid) {
  http::Request request;
  request.method = method;
  request.path = path;
  request.peer_uid = uid;
  auto exchange = std::make_shared<FakeExchange>(std::move(request));
  router.answer(exchange);
  return exchange->answer.status;
}

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
