// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "base/test_folder.h"
#include "http/client.h"

namespace stoker::http {
namespace {

// A server on its own thread; the handler runs there.
class Fixture : public testing::Test {
 protected:
  void start(std::function<void(Loop&, ExchangePtr)> handler, Limits limits = {}, Admit admit = {}) {
    std::promise<Status> listening;
    auto started = listening.get_future();
    thread_ = std::thread([this, handler, limits, admit, &listening] {
      loop_ = std::make_unique<Loop>();
      Server server(
          *loop_, [&](ExchangePtr exchange) { handler(*loop_, std::move(exchange)); }, limits, admit);
      listening.set_value(server.listen_unix(path_));
      loop_->run();
    });
    Status status = started.get();
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  void TearDown() override {
    if (thread_.joinable()) {
      loop_->stop();
      thread_.join();
    }
  }
  TestFolder own_;
  const std::string folder_ = own_.path(), path_ = folder_ + "/s";
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

TEST_F(Fixture, EchoesAndKeepsTheConnection) {
  start([](Loop&, ExchangePtr exchange) {
    Json body;
    body.set("path", exchange->request().path)
        .set("uid", exchange->request().peer_uid)
        .set("q", std::string(exchange->request().query_value("q")))
        .set("body", exchange->request().body);
    exchange->respond(json_response(body));
  });
  Client client(path_);
  for (int i = 0; i < 3; ++i) {
    auto answer = client.call("POST", "/a%20b?q=1", Json(Json::Object{{"x", 1}}));
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ((*answer)["path"].as_string(), "/a b");
    EXPECT_EQ((*answer)["uid"].as_int(), getuid());
    EXPECT_EQ((*answer)["q"].as_string(), "1");
    EXPECT_EQ((*answer)["body"].as_string(), "{\"x\":1}");
  }
  struct stat st;
  ASSERT_EQ(stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(Fixture, LongPollIsAnsweredLater) {
  start([](Loop& loop, ExchangePtr exchange) {
    loop.after(std::chrono::milliseconds(20), [exchange] { exchange->respond(json_response(Json("late"))); });
  });
  Client client(path_);
  auto answer = client.call("GET", "/");
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->as_string(), "late");
}

TEST_F(Fixture, NobodyAnswersBeforeTheDeadline) {
  std::promise<void> gone;
  ExchangePtr held;
  start([&](Loop&, ExchangePtr exchange) {
    exchange->when_gone([&] { gone.set_value(); });
    held = exchange;
  });
  {
    Client client(path_);
    auto answer = client.call("GET", "/", {}, std::chrono::milliseconds(30));
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, Code::kDeadline);
  }
  EXPECT_EQ(gone.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  std::promise<void> dropped;
  loop_->post([&] {
    held.reset();
    dropped.set_value();
  });
  dropped.get_future().wait();
}

TEST_F(Fixture, StreamsToTheLastByte) {
  start([](Loop&, ExchangePtr exchange) {
    exchange->begin_stream(200, "text/plain");
    auto next = std::make_shared<std::function<void(int)>>();
    *next = [exchange, next](int left) {
      if (left == 0) {
        exchange->end_stream();
        *next = nullptr;
        return;
      }
      exchange->write(std::string(100'000, 'a' + left % 26), [next, left](bool taken) {
        if (taken) (*next)(left - 1);
      });
    };
    auto go = *next;
    go(200);
  });
  Client client(path_);
  size_t total = 0;
  Status status = client.stream("/", [&](std::string_view piece) {
    total += piece.size();
    return true;
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(total, 20'000'000u);
  auto again = client.send("GET", "/");
  EXPECT_TRUE(again.ok());
}

TEST_F(Fixture, LimitsAreKept) {
  Limits limits;
  limits.body_bytes = 1000;
  start([](Loop&, ExchangePtr exchange) { exchange->respond(json_response(Json("ok"))); }, limits);
  Client client(path_);
  auto answer = client.send("POST", "/", std::string(2000, 'x'));
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->status, 400);
  auto long_header = client.send("GET", "/" + std::string(20'000, 'x'));
  ASSERT_TRUE(long_header.ok()) << long_header.error().message;
  EXPECT_EQ(long_header->status, 400);
  EXPECT_TRUE(client.call("GET", "/").ok());
}

TEST_F(Fixture, ChildrenInheritNoSocket) {
  std::promise<int> inherited;
  start([&](Loop&, ExchangePtr exchange) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      int fd = std::stoi(entry.path().filename());
      struct stat st;
      if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) ++count;
    }
    inherited.set_value(count);
    exchange->respond(json_response(Json("ok")));
  });
  Client client(path_);
  ASSERT_TRUE(client.call("GET", "/").ok());
  EXPECT_EQ(inherited.get_future().get(), 0);
}

TEST_F(Fixture, WhoMayAskIsDecidedOncePerConnectionWhichEndsWhereItMayNot) {
  std::atomic<int> asked = 0;
  std::atomic<bool> open = true;
  start(
      [](Loop&, ExchangePtr exchange) {
        const auto& refused = exchange->request().refused;
        exchange->respond(refused ? error_response(*refused) : json_response(Json("ok")));
      },
      {},
      [&](int) -> Status {
        asked++;
        if (open) return ok();
        return Error{Code::kDenied, "not you", {}};
      });
  Client early(path_), late(path_);
  for (int i = 0; i < 3; i++) EXPECT_TRUE(early.call("GET", "/").ok());
  EXPECT_EQ(asked, 1);
  open = false;
  EXPECT_TRUE(early.call("GET", "/").ok());
  for (int i = 0; i < 2; i++) {
    auto answer = late.send("GET", "/");
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    EXPECT_EQ(answer->status, 403);
    EXPECT_EQ(asked, 2 + i);  // over a new connection each
  }
}

TEST(Client, NoServerIsUnavailable) {
  Client client("/tmp/stoker-http-nobody-here");
  auto answer = client.call("GET", "/");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace stoker::http
