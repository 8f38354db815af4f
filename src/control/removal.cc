// SPDX-License-Identifier: Apache-2.0
#include "control/removal.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/system_random.h"

namespace stoker::control {
namespace {

constexpr auto kAgentEnd = std::chrono::seconds(10);
constexpr const char* kAside = ".removed-";  // begins the name of a folder of which no job knows

}  // namespace

Removal::Removal(http::Loop& loop, std::string jobs, std::function<void()> idle)
    : loop_(loop), jobs_(std::move(jobs)), idle_(std::move(idle)) {}

void Removal::await_agent(const std::string& job, std::function<void(bool)> again) {
  auto at = waiting_.emplace(job, Waiting{std::move(again)});
  at->second.timer = loop_.after(kAgentEnd, [this, at] {
    auto told = std::move(at->second.again);
    waiting_.erase(at);
    told(true);
  });
}

void Removal::agent_ended(const std::string& job) {
  auto [begin, end] = waiting_.equal_range(job);
  std::vector<Waiting> now;
  for (auto at = begin; at != end; ++at) now.push_back(std::move(at->second));
  waiting_.erase(begin, end);
  for (Waiting& one : now) {
    loop_.cancel(one.timer);
    one.again(false);
  }
}

Result<std::string> Removal::put_aside(const std::string& job) const {
  std::string aside = jobs_ + "/" + kAside + job + "-" + std::to_string(random_number());
  const std::string folder = jobs_ + "/" + job;
  if (::rename(folder.c_str(), aside.c_str()) == 0) return aside;
  if (errno == ENOENT) return std::string();
  return errno_error("renaming " + folder, errno);
}

void Removal::put_back(const std::string& aside, const std::string& job) const {
  if (!aside.empty()) (void)::rename(aside.c_str(), (jobs_ + "/" + job).c_str());
}

void Removal::clear(const std::string& aside, Done done) {
  if (aside.empty()) return done(ok());
  ++clearing_;
  loop_.offload([this, aside, done = std::move(done)]() mutable -> http::Loop::Callback {
    std::error_code error;
    std::filesystem::remove_all(aside, error);
    return [this, aside, error, done = std::move(done)] {
      done(error ? Status(internal("removing " + aside + ": " + error.message() + "; `rm -rf " + aside +
                                   "` removes it, and the next server tries again"))
                 : ok());
      if (--clearing_ == 0) idle_();
    };
  });
}

void Removal::clear_rest() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(jobs_, ignored))
    if (entry.path().filename().string().starts_with(kAside)) rest_.push_back(entry.path());
  clear_next();
}

void Removal::clear_next() {
  if (rest_.empty()) return;
  const std::string aside = std::move(rest_.back());
  rest_.pop_back();
  clear(aside, [this](const Status& cleared) {
    if (!cleared.ok()) log_line(LogLevel::kWarn, "control", cleared.error().message);
    clear_next();
  });
}

}  // namespace stoker::control
