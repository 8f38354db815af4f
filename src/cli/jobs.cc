// SPDX-License-Identifier: Apache-2.0
// The commands about jobs there are: ps, logs, stop, rm, compare, advise.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <set>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/figures_text.h"
#include "cli/notices.h"
#include "cli/session.h"
#include "cli/text.h"
#include "cli/watch.h"

namespace stoker::cli {

namespace {

constexpr const char* kJob = "A name, the beginning of one, or `last`";

// Asks a server, started if need be, and prints the answer as JSON or as people's text.
template <typename Text>
int ask(const std::string& method, const std::string& target, const Json& body, bool json, Text text) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), json);
  auto answer = client->call(method, target, body);
  if (!answer.ok()) return fail(answer.error(), json);
  std::string out = json ? answer->dump() + "\n" : text(*answer);
  Status written = write_all(1, as_bytes(out));
  return written.ok() ? kDone : fail(written.error(), json);
}

struct PsArguments {
  bool all = false, json = false;
};

int ps(const PsArguments& given) {
  const bool all = given.all;
  return ask(
      "GET", all ? "/v1/jobs" : "/v1/jobs?active=1", {}, given.json, [&](const Json& jobs) -> std::string {
        if (!jobs["jobs"].as_array().empty())
          return jobs_table(jobs, system_clock().wall_ms(), isatty(STDOUT_FILENO));
        auto session = locate();  // jobs of another home are not seen from here
        std::fprintf(stderr,
                     all ? "stoker: no jobs yet in %s; `stoker run SCRIPT` starts one\n"
                         : "stoker: no active jobs in %s; `stoker ps --all` lists those that have ended\n",
                     session.ok() ? session->home.c_str() : "this home");
        return {};
      });
}

struct LogsArguments {
  std::string job, group, host;
  bool follow = false, json = false;
};

// [group/algo-1] text -> {"group":…,"host":…,"line":…}
std::string line_json(std::string_view line) {
  size_t end = line.find("] ");
  size_t slash = line.find('/');
  Json json;
  if (line.empty() || line[0] != '[' || end == std::string_view::npos || slash > end) return {};
  json.set("group", std::string(line.substr(1, slash - 1)));
  json.set("host", std::string(line.substr(slash + 1, end - slash - 1)));
  json.set("line", std::string(line.substr(end + 2)));
  return json.dump() + "\n";
}

int logs(const LogsArguments& arguments) {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that leaves is told by write()
  auto session = locate();
  if (!session.ok()) return fail(session.error(), arguments.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), arguments.json);
  std::optional<Notices> notices;
  std::string followed;
  auto say = [json = arguments.json](const std::string& text) {
    if (!json) std::fprintf(stderr, "stoker: %s\n", text.c_str());
  };
  if (arguments.follow) {
    // What is not there yet is waited for, and said: silence would look like a hang.
    auto job = client->call("GET", job_target(arguments.job));
    if (!job.ok()) return fail(job.error(), arguments.json);
    followed = (*job)["name"].as_string();
    Status started = watch_start(*client, *job, say);
    if (!started.ok()) return fail(started.error(), arguments.json);
    if (!arguments.json) notices.emplace(*session, std::move(*job), say);
  }
  std::string target = job_target(arguments.job, "/logs?group=" + http::percent_encode(arguments.group) +
                                                     "&host=" + http::percent_encode(arguments.host));
  if (arguments.follow) target += "&follow=1";
  if (arguments.json) target += "&prefix=1";
  Status printed = ok();
  bool reader_gone = false;
  auto print = [&](std::string_view text) {
    printed = write_all(1, as_bytes(text));
    reader_gone = !printed.ok() && errno == EPIPE;
    return printed.ok();
  };
  std::string partial;
  Status streamed = client->stream(target, [&](std::string_view piece) {
    if (!arguments.json) return print(piece);
    partial.append(piece);
    std::string out;
    size_t at = 0;
    for (size_t end; (end = partial.find('\n', at)) != std::string::npos; at = end + 1)
      out += line_json(std::string_view(partial).substr(at, end - at));
    partial.erase(0, at);
    return print(out);
  });
  if (reader_gone) return kDone;
  if (!printed.ok()) return fail(printed.error(), arguments.json);
  if (notices && streamed.ok()) {  // those that came with the end of the log
    size_t told = notices->end();
    if (auto job = client->call("GET", job_target(followed)); job.ok()) tell_notices(*job, told, say);
  }
  return streamed.ok() ? kDone : fail(streamed.error(), arguments.json);
}

// A command about several jobs: what can be done is, each that fails has its line, and the greatest exit code
// of these is the command's.
class Several {
 public:
  explicit Several(bool json) : json_(json) {}
  void failed(const Error& error) { code_ = std::max(code_, fail(error, json_)); }
  int code() const { return code_; }

 private:
  bool json_;
  int code_ = kDone;
};

struct StopArguments {
  std::vector<std::string> jobs;
  bool no_wait = false, json = false;
};

// All are asked before the first is waited for.
int stop(const StopArguments& given) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), given.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), given.json);
  Several several(given.json);
  Json body;
  body.set("reason", "`stoker stop`");
  std::vector<Json> jobs;
  std::set<std::string> names;  // `last` and a name may be the same job
  for (const std::string& typed : given.jobs) {
    auto job = client->call("POST", job_target(typed, "/stop"), body);
    if (!job.ok())
      several.failed(job.error());
    else if (names.insert((*job)["name"].as_string()).second)
      jobs.push_back(std::move(*job));
  }
  Json::Array stopped;
  for (Json& job : jobs) {
    Status next = ok();
    while (next.ok() && !given.no_wait && !is_over(job)) next = next_change(*client, job);
    if (!next.ok()) {
      several.failed(next.error());
      continue;
    }
    if (!given.json)
      std::printf("%s %s\n", job["name"].as_string().c_str(), job["phase"].as_string().c_str());
    stopped.push_back(std::move(job));
  }
  if (given.json) std::printf("%s\n", Json(Json::Object{{"stopped", std::move(stopped)}}).dump().c_str());
  return several.code();
}

struct RmArguments {
  std::vector<std::string> jobs;
  bool json = false;
};

int rm(const RmArguments& given) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), given.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), given.json);
  Several several(given.json);
  Json::Array removed;
  // Once each: `last` is another job when it has been removed.
  for (const std::string& job : std::set(given.jobs.begin(), given.jobs.end())) {
    auto answer = client->call("DELETE", job_target(job), {}, std::chrono::seconds(600));
    if (!answer.ok()) {
      several.failed(answer.error());
      continue;
    }
    if (!given.json) std::printf("%s removed\n", (*answer)["removed"].as_string().c_str());
    removed.push_back((*answer)["removed"]);
  }
  if (given.json) std::printf("%s\n", Json(Json::Object{{"removed", std::move(removed)}}).dump().c_str());
  return several.code();
}

constexpr size_t kMostCompared = 16;

struct CompareArguments {
  std::vector<std::string> jobs;
  bool json = false;
};

int compare(const CompareArguments& given) {
  if (given.jobs.size() < 2 || given.jobs.size() > kMostCompared)
    return fail(invalid("compare takes 2 to " + std::to_string(kMostCompared) + " jobs, and was given " +
                        std::to_string(given.jobs.size()) + "; `stoker ps --all` lists them"),
                given.json);
  return ask("GET", jobs_target("/v1/compare", given.jobs), {}, given.json, comparison_text);
}

struct AdviseArguments {
  std::string job;
  bool json = false;
};

int advise(const AdviseArguments& given) {
  return ask("GET", job_target(given.job, "/advice"), {}, given.json, advice_text);
}

}  // namespace

void add_ps(Commands& commands) {
  commands.add<PsArguments>(
      "ps", "List jobs",
      [](CLI::App& command, PsArguments& given) {
        command.add_flag("--all,-a", given.all, "Also those that have ended");
      },
      ps);
}

void add_logs(Commands& commands) {
  commands.add<LogsArguments>(
      "logs", "Print a job's logs",
      [](CLI::App& command, LogsArguments& given) {
        command.add_option("JOB", given.job, kJob)->required()->check(job_name());
        command.add_flag("-f,--follow", given.follow, "Until the job has ended");
        command.add_option("--group", given.group, "Only this group");
        command.add_option("--host", given.host, "Only this host (algo-N)");
      },
      logs);
}

void add_stop(Commands& commands) {
  commands.add<StopArguments>(
      "stop", "Stop jobs and wait until nothing of them is left",
      [](CLI::App& command, StopArguments& given) {
        command.add_option("JOB", given.jobs, kJob)->required()->check(job_name());
        command.add_flag("--no-wait", given.no_wait, "Return at once");
      },
      stop);
}

void add_rm(Commands& commands) {
  commands.add<RmArguments>(
      "rm", "Remove ended jobs with their folders; their names are free then",
      [](CLI::App& command, RmArguments& given) {
        command.add_option("JOB", given.jobs, "A whole name, or `last`")->required()->check(job_name());
      },
      rm);
}

void add_compare(Commands& commands) {
  commands.add<CompareArguments>(
      "compare", "Compare step time and cost of jobs with the first",
      [](CLI::App& command, CompareArguments& given) {
        command.add_option("JOB", given.jobs, "Two to 16 jobs")->required()->check(job_name());
      },
      compare);
}

void add_advise(Commands& commands) {
  commands.add<AdviseArguments>(
      "advise", "Say what binds a job and what would help",
      [](CLI::App& command, AdviseArguments& given) {
        command.add_option("JOB", given.job, kJob)->required()->check(job_name());
      },
      advise);
}

}  // namespace stoker::cli
