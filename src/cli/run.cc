// SPDX-License-Identifier: Apache-2.0
#include "cli/run.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/notices.h"
#include "cli/python.h"
#include "cli/session.h"
#include "cli/text.h"
#include "cli/watch.h"

namespace stoker::cli {

namespace {

constexpr int kInterrupted = 130;

std::string absolute(const std::string& path) {
  std::error_code error;
  return std::filesystem::absolute(path, error).lexically_normal();
}

// What is before and after the first '='. `form`: how people write it.
Result<std::pair<std::string, std::string>> split(const std::string& text, const char* option,
                                                  const char* form) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return invalid(std::string(option) + " '" + text + "': expected " + form);
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// Whether a backslash before `next` is one that a shell takes away.
bool escapes(char quote, char next) {
  if (quote == '"') return next == '"' || next == '\\' || next == '$' || next == '`';
  return quote == 0;
}

class Interrupts {
 public:
  Interrupts() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int fd() const { return fd_.get(); }
  // How many have come so far.
  int count() {
    signalfd_siginfo info;
    while (::read(fd_.get(), &info, sizeof info) == sizeof info) ++count_;
    return count_;
  }

 private:
  UniqueFd fd_;
  int count_ = 0;
};

// Follows one job to its end.
class Follower {
 public:
  Follower(const Session& session, http::Client& client, Interrupts& interrupts, std::string job, bool json)
      : session_(session), client_(client), interrupts_(interrupts), job_(std::move(job)), json_(json) {
    client_.set_wake(interrupts_.fd(), [this] { return on_interrupt(); });
  }

  int follow(Json job) {
    on_interrupt();  // what came while the job was submitted
    Status done = watch_start(client_, job, [this](const std::string& text) {
      if (!json_) say(text);
    });
    notices_shown_ = job["state"]["notices"].as_array().size();
    if (done.ok()) done = stream(job);
    if (done.ok()) done = watch_end(job);
    if (detached_) {
      say("detached; the job goes on: `stoker logs -f " + job_ + "`, `stoker stop " + job_ + "`");
      return kInterrupted;
    }
    if (!done.ok()) return fail(done.error(), json_);
    return conclude(job);
  }

 private:
  // Ctrl-C once stops the job, twice detaches.
  bool on_interrupt() {
    if (interrupts_.count() >= 2) detached_ = true;
    if (detached_) return false;
    if (stopping_ || interrupts_.count() == 0) return true;
    stopping_ = true;
    say("stopping " + job_ + " (Ctrl-C again leaves it to end by itself)");
    http::Client other(session_.socket);
    Json body;
    body.set("reason", "interrupted at the terminal");
    auto answer = other.call("POST", job_target(job_, "/stop"), body);
    if (!answer.ok()) say(answer.error().message);
    return true;
  }

  void say(const std::string& text) const { std::fprintf(stderr, "stoker: %s\n", text.c_str()); }

  Status stream(const Json& job) {
    int out = json_ ? 2 : 1;
    std::optional<Notices> notices;
    if (!json_) notices.emplace(session_, job, [this](const std::string& text) { say(text); });
    Status printed = ok();
    Status streamed = client_.stream(job_target(job_, "/logs?follow=1"), [&](std::string_view piece) {
      printed = write_all(out, as_bytes(piece));
      return printed.ok();
    });
    if (notices) notices_shown_ = notices->end();
    if (!printed.ok()) {
      detached_ = true;
      say("the log cannot be printed: " + printed.error().message);
      return printed;
    }
    return streamed;
  }

  Status watch_end(Json& job) {
    do {
      STOKER_TRY(next_change(client_, job));
    } while (!is_over(job));
    return ok();
  }

  int conclude(const Json& job) {
    if (json_) {
      std::printf("%s\n", job.dump().c_str());
    } else {
      tell_notices(job, notices_shown_,
                   [this](const std::string& text) { say(text); });  // what the run had to get over
      say(result_text(job));
    }
    int code = static_cast<int>(job["state"]["exit_code"].as_int());
    // Its own code (143 where TERM ended it) says nothing that the terminal's user does not know.
    return stopping_ && job["phase"].as_string() == "stopped" ? kInterrupted : code;
  }

  const Session& session_;
  http::Client& client_;
  Interrupts& interrupts_;
  std::string job_;
  bool json_;
  bool stopping_ = false;
  bool detached_ = false;
  size_t notices_shown_ = 0;
};

}  // namespace

Result<std::vector<std::string>> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;  // a word, which may be an empty one in quotes
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool space = quote == 0 && (c == ' ' || c == '\t' || c == '\n');
    if (space) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && i + 1 < text.size() && escapes(quote, text[i + 1])) {
      words.back().push_back(text[++i]);
    } else {
      words.back().push_back(c);
    }
  }
  if (quote != 0) return invalid("a quote " + std::string(1, quote) + " is not closed in: " + text);
  return words;
}

Result<Json> run_request(const RunArguments& arguments) {
  Json request;
  request.set("script", absolute(arguments.script));
  Json::Array groups, inputs, texts;
  for (const std::string& group : arguments.groups) groups.emplace_back(group);
  for (const std::string& argument : arguments.arguments) texts.emplace_back(argument);
  for (const std::string& text : arguments.inputs) {
    STOKER_ASSIGN(auto pair, split(text, "--input", "NAME=DIR"));
    std::string folder = absolute(pair.second);
    if (folder.size() > 1 && folder.back() == '/') folder.pop_back();
    inputs.push_back(Json(Json::Object{{"name", pair.first}, {"folder", folder}}));
  }
  Json::Object entries;
  for (const std::string& text : arguments.entries) {
    STOKER_ASSIGN(auto pair, split(text, "--entry", "GROUP='WORK.py ARGUMENTS'"));
    auto words = words_of(pair.second);
    if (!words.ok()) return std::move(words).error().during("--entry " + pair.first);
    Json::Array list;
    for (std::string& word : *words) list.emplace_back(std::move(word));
    if (!entries.emplace(pair.first, std::move(list)).second)
      return invalid("--entry is given twice for group '" + pair.first + "'");
  }
  Json::Object environment, hyperparameters;
  for (const std::string& text : arguments.environment) {
    STOKER_ASSIGN(auto pair, split(text, "--env", "NAME=VALUE"));
    environment[pair.first] = pair.second;
  }
  for (const std::string& text : arguments.hyperparameters) {
    STOKER_ASSIGN(auto pair, split(text, "--hyperparameter", "NAME=VALUE"));
    if (!hyperparameters.emplace(pair.first, pair.second).second)
      return invalid("--hyperparameter is given twice for '" + pair.first + "'");
  }
  request.set("groups", std::move(groups))
      .set("inputs", std::move(inputs))
      .set("arguments", std::move(texts));
  request.set("environment", std::move(environment));
  if (!hyperparameters.empty()) request.set("hyperparameters", std::move(hyperparameters));
  if (!entries.empty()) request.set("entries", std::move(entries));
  if (!arguments.name.empty()) request.set("name", arguments.name);
  if (!arguments.requirements.empty()) request.set("requirements", absolute(arguments.requirements));
  STOKER_ASSIGN(std::string python, find_python(arguments.python));
  request.set("python", python);
  if (arguments.cpu_scale > 0) request.set("cpu_scale", arguments.cpu_scale);
  if (arguments.grace_s >= 0) request.set("grace_s", arguments.grace_s);
  request.set("fewer_gpus", arguments.fewer_gpus);
  return request;
}

int run(const RunArguments& arguments) {
  ::signal(SIGPIPE, SIG_IGN);  // when nobody reads the log any more, the job goes on, and that is said
  auto refuse = [&](const Error& error) {
    fail(error, arguments.json);
    if (error.code == Code::kNotFound) return static_cast<int>(kMissing);
    if (error.code == Code::kDenied) return static_cast<int>(kNotRunnable);
    return exit_code_of(error);
  };
  auto request = run_request(arguments);
  if (!request.ok()) return refuse(request.error());
  auto session = locate();
  if (!session.ok()) return fail(session.error(), arguments.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), arguments.json);
  std::optional<Interrupts> interrupts;
  if (!arguments.detach) {
    interrupts.emplace();
    client->set_wake(interrupts->fd(), [&] { return interrupts->count() < 2; });
  }
  auto submitted = client->call("POST", "/v1/jobs", *request, std::chrono::seconds(120));
  if (!submitted.ok()) return refuse(submitted.error());
  const Json& job = (*submitted)["job"];
  std::string name = job["name"].as_string();
  if (!arguments.json) std::fprintf(stderr, "%s", submitted_text(*submitted).c_str());
  if (arguments.detach) {
    std::printf("%s\n", arguments.json ? job.dump().c_str() : name.c_str());
    return kDone;
  }
  return Follower(*session, *client, *interrupts, name, arguments.json).follow(job);
}

}  // namespace stoker::cli
