// SPDX-License-Identifier: Apache-2.0
#include "cli/watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <thread>

#include "base/test_folder.h"
#include "http/server.h"

namespace stoker::cli {
namespace {

Json job_in(const std::string& phase, Json::Array notices) {
  Json job, state;
  state.set("notices", std::move(notices)).set("hosts", Json::Array()).set("placed_ms", 0);
  return job.set("name", "late").set("phase", phase).set("version", 1).set("state", std::move(state));
}

// A server that answers each poll by the next of these jobs, the last one only when it is told to.
class Polled {
 public:
  explicit Polled(std::vector<Json> jobs) {
    std::promise<void> listening;
    thread_ = std::thread([this, &listening, jobs = std::move(jobs)] {
      size_t next = 0;
      http::Server server(loop_, [&](http::ExchangePtr exchange) {
        const http::Response answer = http::json_response(jobs.at(next++));
        if (next < jobs.size()) return exchange->respond(answer);
        go_ = [exchange, answer] { exchange->respond(answer); };
        if (told_) go_();
      });
      CHECK(server.listen_unix(path()).ok());
      listening.set_value();
      loop_.run();
    });
    listening.get_future().wait();
  }
  ~Polled() {
    loop_.stop();
    thread_.join();
  }
  std::string path() const { return own_.path() + "/s"; }
  void answer_last() {
    loop_.post([this] {
      told_ = true;
      if (go_) go_();
    });
  }

 private:
  TestFolder own_;
  http::Loop loop_;
  bool told_ = false;
  std::function<void()> go_;
  std::thread thread_;
};

TEST(Watch, NoticesOfAJobThatIsPreparedAreToldWhenTheyCome) {
  Polled server({job_in("preparing", {"first"}), job_in("preparing", {"first", "second"}),
                 job_in("running", {"first", "second", "third"})});
  http::Client client(server.path());
  Json job = job_in("preparing", {});
  std::vector<std::string> said;
  Status watched = watch_start(client, job, [&](const std::string& text) {
    said.push_back(text);
    if (text == "second") server.answer_last();
  });
  EXPECT_TRUE(watched.ok()) << watched.error().message;
  EXPECT_EQ(said, (std::vector<std::string>{"first", "second", "third"}));
}

}  // namespace
}  // namespace stoker::cli
