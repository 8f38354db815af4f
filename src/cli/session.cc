// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/error_line.h"
#include "base/files.h"
#include "base/home.h"

namespace stoker::cli {

namespace {

constexpr auto kProbe = std::chrono::milliseconds(5000);
constexpr int64_t kStartNs = 20'000'000'000;

// Starts a detached server and waits until it answers or ends. Returns its complaint, "" when it is ready or
// when another one holds the lock.
Result<std::string> start_server() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("making a pipe", errno);
  UniqueFd in(ends[0]), out(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 2);
  posix_spawn_file_actions_adddup2(&actions, out.get(), 3);
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  char name[] = "stoker", server[] = "server", detached[] = "--detached", ready[] = "--ready-fd",
       three[] = "3";
  char* argv[] = {name, server, detached, ready, three, nullptr};
  int pid = 0;
  int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return errno_error("starting the server", error);
  out.reset();
  std::string text;
  int64_t deadline = monotonic_ns() + kStartNs;
  while (true) {
    int64_t left_ms = (deadline - monotonic_ns()) / 1'000'000;
    pollfd wait{in.get(), POLLIN, 0};
    if (left_ms <= 0 || ::poll(&wait, 1, static_cast<int>(left_ms)) == 0)
      return Error{Code::kDeadline, "the server did not start within 20 seconds", {}};
    char buffer[4096];
    ssize_t n = ::read(in.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() >= 6 && text.compare(text.size() - 6, 6, "ready\n") == 0) return std::string();
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTryLater) return std::string();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? std::string("it ended at once") : text;
}

std::string server_process(const Session& session) {
  auto pid = read_text(session.home + "/run/server.lock");
  if (!pid.ok()) return "its process is not known";
  return "process " + pid->substr(0, pid->find('\n'));
}

}  // namespace

Result<Session> locate() {
  STOKER_ASSIGN(std::string home, stoker_home());
  std::error_code ignored;
  if (std::filesystem::exists(home, ignored) && !std::filesystem::is_directory(home, ignored))
    return invalid(home + " is no folder; set STOKER_HOME to a folder of yours");
  std::string socket = server_socket(home);
  return Session{std::move(home), std::move(socket)};
}

Result<http::Client> connect_running(const Session& session) {
  http::Client client(session.socket);
  STOKER_TRY([&]() -> Status {
    auto answer = client.call("GET", "/v1/server", {}, kProbe);
    if (answer.ok()) return ok();
    Error error = std::move(answer).error();
    if (error.code == Code::kDeadline)
      error.message += ": it (" + server_process(session) + ") is stopped or very busy; see " + session.home +
                       "/server.log, and try again";
    return error;
  }());
  return client;
}

Result<http::Client> connect(const Session& session) {
  // A server that is just ending holds the lock for a moment, and so does one that another command is just
  // starting.
  int64_t deadline = monotonic_ns() + kStartNs;
  while (true) {
    auto client = connect_running(session);
    if (client.ok() || client.error().code != Code::kUnavailable) return client;
    STOKER_ASSIGN(std::string complaint, start_server());
    if (!complaint.empty())
      return Error{Code::kInternal, "the server could not be started: " + complaint, {}};
    client = connect_running(session);
    if (client.ok() || client.error().code != Code::kUnavailable) return client;
    if (monotonic_ns() > deadline)
      return unavailable(
          "a server (" + server_process(session) + ") holds " + session.home +
          "/run/server.lock but cannot be reached at " + session.socket +
          "; if that was removed, `kill` ends it with its jobs and the next command starts another; see " +
          session.home + "/server.log");
    ::usleep(20'000);
  }
}

int exit_code_of(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kExists:
    case Code::kUnsupported:
      return kUsage;
    case Code::kDenied:
      return kNotAllowed;
    case Code::kUnavailable:
    case Code::kDeadline:
      return kTryLater;
    default:
      return kPlatform;
  }
}

int fail(const Error& error, bool json) {
  std::fputs(error_line("stoker", error, json).c_str(), stderr);
  return exit_code_of(error);
}

bool is_over(const Json& job) {
  const std::string& phase = job["phase"].as_string();
  return phase == "completed" || phase == "failed" || phase == "stopped";
}

std::string job_target(const std::string& job, const std::string& rest) {
  return "/v1/jobs/" + http::percent_encode(job) + rest;
}

std::string jobs_target(const std::string& route, const std::vector<std::string>& jobs) {
  std::string target = route;
  const char* before = "?job=";
  for (const std::string& job : jobs) target += std::exchange(before, "&job=") + http::percent_encode(job);
  return target;
}

}  // namespace stoker::cli
