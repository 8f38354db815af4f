// SPDX-License-Identifier: Apache-2.0
// The table of who may ask what: a route that is not in it, or that answers somebody else, is a mistake.
#include "api/routes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "api/test_exchange.h"
#include "base/test_folder.h"

namespace stoker::api {
namespace {

class Routes : public testing::Test {
 protected:
  Routes() {
    store_ = *control::Store::open(home_ + "/jobs.db");
    controller_ = std::make_unique<control::Controller>(
        loop_, system_clock(), *store_, *control::Catalogue::built_in(),
        control::Controller::Options{home_, {1}, control::Machine{2, int64_t{1} << 30, 0, ""}});
    watches_ = std::make_unique<control::FolderWatch>(loop_);
    context_ = std::make_unique<NativeContext>(
        NativeContext{loop_, *controller_, *store_, *watches_, [this](bool) { told_to_stop_ = true; }});
    add_routes(router_, *context_);
  }

  TestFolder own_;
  const std::string home_ = own_.path();
  http::Loop loop_;
  std::unique_ptr<control::Store> store_;
  std::unique_ptr<control::Controller> controller_;
  std::unique_ptr<control::FolderWatch> watches_;
  std::unique_ptr<NativeContext> context_;
  Router router_;
  bool told_to_stop_ = false;
};

std::string example(std::string path) {
  for (size_t at; (at = path.find('{')) != std::string::npos;) path.replace(at, path.find('}') - at + 1, "x");
  return path;
}

TEST_F(Routes, EachHasARowInTheTableOfWhoMay) {
  const std::set<std::string> owners = {
      "GET /v1/server",
      "POST /v1/server/stop",
      "GET /v1/catalogue",
      "GET /v1/jobs",
      "POST /v1/jobs",
      "GET /v1/jobs/{job}",
      "DELETE /v1/jobs/{job}",
      "POST /v1/jobs/{job}/stop",
      "GET /v1/jobs/{job}/logs",
      "GET /v1/jobs/{job}/metrics",
      "GET /v1/jobs/{job}/events",
      "GET /v1/jobs/{job}/advice",
      "GET /v1/compare",
      "GET /v1/top",
      "GET /metrics",
      "GET /internal/v1/agents/{agent}/commands",
      "POST /internal/v1/agents/{agent}/events",
  };
  std::set<std::string> found;
  for (const Router::Route& route : router_.routes())
    if (route.access == Access::kOwner) found.insert(route.method + " " + route.pattern);
  EXPECT_EQ(found, owners);
  EXPECT_EQ(router_.routes().size(), owners.size());
}

TEST_F(Routes, NoneAnswersAnotherUser) {
  const int me = static_cast<int>(getuid());
  for (const Router::Route& route : router_.routes()) {
    const std::string path = example(route.pattern);
    EXPECT_EQ(status(router_, route.method, path, me + 1), 403) << route.method << " " << path;
    EXPECT_EQ(status(router_, route.method, path, -1), 403) << route.method << " " << path;
  }
  loop_.post([&] { loop_.stop(); });
  loop_.run();
  EXPECT_FALSE(told_to_stop_);
  EXPECT_TRUE(controller_->jobs().empty());
}

TEST_F(Routes, TheirOwnerIsAnswered) {
  const int me = static_cast<int>(getuid());
  EXPECT_EQ(status(router_, "GET", "/v1/server", me), 200);
  EXPECT_EQ(status(router_, "GET", "/v1/jobs/x/metrics", me), 404);
  EXPECT_EQ(status(router_, "DELETE", "/v1/jobs/x", me), 404);
}

}  // namespace
}  // namespace stoker::api
