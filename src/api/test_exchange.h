// SPDX-License-Identifier: Apache-2.0
// For this room's tests: a request that was never sent.
#pragma once

#include <memory>
#include <string>

#include "api/router.h"

namespace stoker::api {

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

inline int status(const Router& router, const std::string& method, const std::string& path, int uid) {
  http::Request request;
  request.method = method;
  request.path = path;
  request.peer_uid = uid;
  auto exchange = std::make_shared<FakeExchange>(std::move(request));
  router.answer(exchange);
  return exchange->answer.status;
}

}  // namespace stoker::api
