// SPDX-License-Identifier: Apache-2.0
// `stoker top` and `stoker metrics`: what running jobs do now.
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "cli/session.h"
#include "cli/top_text.h"

namespace stoker::cli {
namespace {

struct TopArguments {
  std::vector<std::string> jobs;
  double every_s = 0;  // 0: not typed
  bool once = false, json = false;
};

constexpr double kEveryS = 2;

// Of the jobs asked for by name, whether any may still do something.
bool may_go_on(const TopArguments& given, const Json& live) {
  if (given.jobs.empty()) return true;
  const Json::Array& jobs = live["jobs"].as_array();
  return !std::all_of(jobs.begin(), jobs.end(), is_over);
}

std::string no_jobs(const Session& session) {
  return "no active jobs in " + session.home + "; `stoker ps --all` lists those that have ended";
}

Status print(const TopArguments& given, const Session& session, const Json& live) {
  if (given.json) return write_all(1, as_bytes(live.dump() + "\n"));
  std::string out;
  for (const std::string& line : top_lines(live)) out += line + "\n";
  if (out.empty()) std::fprintf(stderr, "stoker: %s\n", no_jobs(session).c_str());
  return write_all(1, as_bytes(out));
}

// A server that has ended has no jobs: looking does not start it again.
Result<Json> look(const Session& session, http::Client& client, const std::string& target) {
  auto live = client.call("GET", target);
  if (live.ok() || live.error().code != Code::kUnavailable) return live;
  auto again = connect_running(session);
  if (!again.ok()) {
    Json nothing;
    nothing.set("t", static_cast<double>(system_clock().wall_ms()) / 1000).set("jobs", Json::Array{});
    return nothing;
  }
  client = std::move(*again);
  return client.call("GET", target);
}

std::vector<std::string> screen_lines(const Session& session, const Json& live) {
  const auto at = static_cast<time_t>(live["t"].as_double());
  tm local{};
  localtime_r(&at, &local);
  char clock[16];
  strftime(clock, sizeof clock, "%H:%M:%S", &local);
  std::vector<std::string> lines = {std::string("stoker top · ") + clock + " · q quits", ""};
  for (std::string& line : top_lines(live)) lines.push_back(std::move(line));
  if (lines.size() == 2) lines.push_back(no_jobs(session));
  return lines;
}

// The last look, for who reads it where the shell goes on.
Result<Json> on_screen(const TopArguments& given, const Session& session, http::Client& client) {
  STOKER_ASSIGN(auto screen, Screen::open());
  const auto every_ms = static_cast<int64_t>((given.every_s > 0 ? given.every_s : kEveryS) * 1000);
  Json live;
  int64_t due = 0;
  while (true) {
    if (monotonic_ns() >= due) {
      STOKER_ASSIGN(live, look(session, client, jobs_target("/v1/top", given.jobs)));
      due = monotonic_ns() + every_ms * 1'000'000;
    }
    STOKER_TRY(screen->draw(fitted(screen_lines(session, live), screen->columns(), screen->rows())));
    if (!may_go_on(given, live)) return live;
    const int64_t left_ms = std::max<int64_t>((due - monotonic_ns() + 999'999) / 1'000'000, 0);
    if (screen->wait(left_ms) == Screen::Woken::kQuit) return live;
  }
}

int top(const TopArguments& given) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), given.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), given.json);
  const bool tty = isatty(1);
  if (tty && !given.once && !given.json) {
    auto last = on_screen(given, *session, *client);
    if (!last.ok()) return fail(last.error());
    Status printed = print(given, *session, *last);
    return printed.ok() ? kDone : fail(printed.error());
  }
  const bool repeats = !given.once && (tty || given.every_s > 0);
  while (true) {
    auto live = repeats ? look(*session, *client, jobs_target("/v1/top", given.jobs))
                        : client->call("GET", jobs_target("/v1/top", given.jobs));
    if (!live.ok()) return fail(live.error(), given.json);
    if (Status printed = print(given, *session, *live); !printed.ok())
      return fail(printed.error(), given.json);
    if (!repeats || !may_go_on(given, *live)) return kDone;
    ::usleep(static_cast<useconds_t>((given.every_s > 0 ? given.every_s : kEveryS) * 1e6));
  }
}

struct MetricsArguments {
  bool json = false;
};

int metrics(const MetricsArguments& given) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), given.json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), given.json);
  auto answer = client->send("GET", "/metrics");
  if (answer.ok() && answer->status != 200) answer = http::error_of(answer->status, answer->body);
  if (!answer.ok()) return fail(answer.error(), given.json);
  Json json;
  json.set("text", answer->body);
  Status written = write_all(1, as_bytes(given.json ? json.dump() + "\n" : answer->body));
  return written.ok() ? kDone : fail(written.error(), given.json);
}

}  // namespace

void add_top(Commands& commands) {
  commands.add<TopArguments>(
      "top", "Show what running jobs do: CPU, memory, steps, waiting for data, the feed",
      [](CLI::App& command, TopArguments& given) {
        command.add_option("JOB", given.jobs, "Only these; default: all that run")->check(job_name());
        command.add_flag("--once", given.once, "Print once; so it is too where the output is no terminal");
        command
            .add_option("--every", given.every_s,
                        "Seconds between two looks (2); with it, output that is no terminal goes on too")
            ->check(number({0.1, 3600, "seconds"}));
      },
      top);
}

void add_metrics(Commands& commands) {
  commands.add<MetricsArguments>(
      "metrics", "Print the figures of running jobs as Prometheus reads them",
      [](CLI::App&, MetricsArguments&) {}, metrics);
}

}  // namespace stoker::cli
