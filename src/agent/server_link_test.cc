// SPDX-License-Identifier: Apache-2.0
// The agent's side of the talk, against a real HTTP server on a Unix socket.
#include "agent/server_link.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <deque>
#include <future>
#include <thread>

#include "base/test_folder.h"
#include "http/server.h"

namespace stoker::agent {
namespace {

// Answers as the server does: keeps what it heard, hands out one stop. It can be away, and it can lose its
// answers.
class FakeServer {
 public:
  explicit FakeServer(std::string path) : path_(std::move(path)) {}
  ~FakeServer() { stop(); }

  void start() {
    std::promise<void> listening;
    thread_ = std::thread([&] {
      loop_ = std::make_unique<http::Loop>();
      http::Server server(*loop_, [this](http::ExchangePtr exchange) { answer(exchange); });
      EXPECT_TRUE(server.listen_unix(path_).ok());
      listening.set_value();
      loop_->run();
    });
    listening.get_future().wait();
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_->stop();
    thread_.join();
  }

  bool unknown = false;           // answers that it knows no agent
  int fail_first = 0;             // answers to events that are errors although the events were heard
  std::vector<AgentEvent> heard;  // to be read after flush() and stop()

 private:
  void answer(const http::ExchangePtr& exchange) {
    if (unknown) return exchange->respond(http::error_response({Code::kNotFound, "no such agent", {}}));
    if (exchange->request().path.ends_with("/commands")) {
      if (exchange->request().query_value("after") != "0") return parked_.push_back(exchange);
      Json::Array commands{AgentCommand{1, Stop{3, "user"}}.to_json()};
      return exchange->respond(http::json_response(Json(Json::Object{{"commands", commands}})));
    }
    auto body = Json::parse(exchange->request().body);
    for (const auto& item : (*body)["events"].as_array()) {
      auto event = AgentEvent::from_json(item);
      ASSERT_TRUE(event.ok());
      if (heard.empty() || event->seq > heard.back().seq) heard.push_back(*event);
    }
    if (fail_first-- > 0) {
      http::Response broken;
      broken.status = 500;
      return exchange->respond(broken);
    }
    exchange->respond(http::json_response(Json(Json::Object{{"acknowledged", heard.back().seq}})));
  }

  std::string path_;
  std::unique_ptr<http::Loop> loop_;
  std::thread thread_;
  std::vector<http::ExchangePtr> parked_;
};

class Link : public testing::Test {
 protected:
  TestFolder own_;
  const std::string folder_ = own_.path();
  StopRequest& stop_ = kept();

 private:
  // The poll for commands may be in the middle of a request when the test ends: its target stays to the
  // program's end.
  static StopRequest& kept() {
    static auto& all = *new std::deque<StopRequest>;
    return all.emplace_back();
  }
};

TEST_F(Link, EventsArriveOnceAndInOrderAndTheStopComes) {
  FakeServer server(folder_ + "/s");
  server.fail_first = 2;
  server.start();
  ServerLink link(folder_ + "/s", "a1", stop_);
  for (int i = 0; i < 200; i++) link.emit(Notice{std::to_string(i)});
  ASSERT_TRUE(link.flush(30).ok());
  pollfd stop{stop_.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&stop, 1, 30'000), 1);
  EXPECT_EQ(stop_.get(), (Stop{3, "user"}));
  server.stop();
  ASSERT_EQ(server.heard.size(), 200u);
  for (int i = 0; i < 200; i++)
    EXPECT_EQ(server.heard[i].what, decltype(AgentEvent::what)(Notice{std::to_string(i)}));
}

TEST_F(Link, ServerThatDoesNotKnowTheAgentStopsIt) {
  FakeServer server(folder_ + "/s");
  server.unknown = true;
  server.start();
  ServerLink link(folder_ + "/s", "a1", stop_);
  pollfd stop{stop_.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&stop, 1, 30'000), 1);
  EXPECT_EQ(stop_.get()->reason, "the server does not know this agent");
  server.stop();
}

TEST_F(Link, ServerThatComesLaterHearsEverything) {
  ServerLink link(folder_ + "/s", "a1", stop_);
  link.emit(Preparing{"sandbox"});
  auto waited = link.flush(0.05);
  ASSERT_FALSE(waited.ok());
  EXPECT_NE(waited.error().message.find("preparing"), std::string::npos);
  FakeServer server(folder_ + "/s");
  server.start();
  EXPECT_TRUE(link.flush(30).ok());
  server.stop();
  EXPECT_EQ(server.heard.size(), 1u);
}

}  // namespace
}  // namespace stoker::agent
