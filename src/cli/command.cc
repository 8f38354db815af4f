// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>

#include "base/clock.h"
#include "cli/figures_text.h"
#include "cli/python.h"
#include "cli/run.h"
#include "cli/session.h"
#include "cli/text.h"
#include "cli/watch.h"

namespace stoker::cli {

namespace {

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

int ps(bool all, bool json) {
  return ask("GET", all ? "/v1/jobs" : "/v1/jobs?active=1", {}, json, [&](const Json& jobs) -> std::string {
    if (!jobs["jobs"].as_array().empty()) return jobs_table(jobs, system_clock().wall_ms());
    std::fprintf(stderr, all ? "stoker: no jobs yet; `stoker run SCRIPT` starts one\n"
                             : "stoker: no active jobs; `stoker ps --all` lists those that have ended\n");
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
  if (arguments.follow) {
    // What is not there yet is waited for, and said: silence would look like a hang.
    auto job = client->call("GET", job_target(arguments.job));
    if (!job.ok()) return fail(job.error(), arguments.json);
    Status started = watch_start(*client, *job, [&](const std::string& text) {
      if (!arguments.json) std::fprintf(stderr, "stoker: %s\n", text.c_str());
    });
    if (!started.ok()) return fail(started.error(), arguments.json);
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
  return streamed.ok() ? kDone : fail(streamed.error(), arguments.json);
}

int stop(const std::string& job, bool wait, bool json) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), json);
  auto client = connect(*session);
  if (!client.ok()) return fail(client.error(), json);
  Json body;
  body.set("reason", "`stoker stop`");
  auto answer = client->call("POST", job_target(job, "/stop"), body);
  if (!answer.ok()) return fail(answer.error(), json);
  while (wait && !is_over(*answer))
    if (Status next = next_change(*client, *answer); !next.ok()) return fail(next.error(), json);
  if (json)
    std::printf("%s\n", answer->dump().c_str());
  else
    std::printf("%s %s\n", (*answer)["name"].as_string().c_str(), (*answer)["phase"].as_string().c_str());
  return kDone;
}

// Prints whether there was one to stop.
int server_stopped(bool was_running, bool json) {
  if (json) std::printf("{\"stopped\":%s}\n", was_running ? "true" : "false");
  return kDone;
}

int stop_server(bool force, bool json) {
  auto session = locate();
  if (!session.ok()) return fail(session.error(), json);
  auto client = connect_running(*session);
  if (!client.ok() && client.error().code == Code::kUnavailable) {
    std::fprintf(stderr, "stoker: no server is running for %s\n", session->home.c_str());
    return server_stopped(false, json);
  }
  if (!client.ok()) return fail(client.error(), json);
  auto server = client->call("GET", "/v1/server");
  if (!server.ok()) return fail(server.error(), json);
  // Held before it is told to end, so that its number names no other process.
  UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, (*server)["pid"].as_int(), 0)));
  Json body;
  body.set("force", force);
  auto answer = client->call("POST", "/v1/server/stop", body);
  if (!answer.ok()) return fail(answer.error(), json);
  pollfd ended{process.get(), POLLIN, 0};
  while (process && ::poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
  return server_stopped(true, json);
}

int compare(const std::vector<std::string>& jobs, bool json) {
  std::string target = "/v1/compare?";
  for (const std::string& job : jobs)
    target += (target.back() == '?' ? "job=" : "&job=") + http::percent_encode(job);
  return ask("GET", target, {}, json, comparison_text);
}

int advise(const std::string& job, bool json) {
  return ask("GET", job_target(job, "/advice"), {}, json, advice_text);
}

// Runs the callback of the command that was typed; usage errors say what to type next.
// What goes to the server goes as JSON, which would change such a word unseen.
bool is_text(const std::string& word) {
  auto again = Json::parse(Json(word).dump());
  return again.ok() && again->as_string() == word;
}

int parse(CLI::App& app, std::vector<std::string> words, const int& code) {
  std::string first = words.empty() ? std::string() : words.front();
  std::string known;
  bool is_command = false;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    is_command = is_command || command->get_name() == first;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (!first.empty() && first[0] != '-' && !is_command) {
    std::fprintf(stderr, "stoker: there is no command '%s'; there are %s\n", first.c_str(), known.c_str());
    return kUsage;
  }
  try {
    std::reverse(words.begin(), words.end());  // CLI11 wants them so
    app.parse(std::move(words));
    return code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 || first.empty()) {  // --help, --version, or nothing typed
      if (first.empty()) std::fprintf(stderr, "%s", app.help().c_str());
      return first.empty() ? static_cast<int>(kUsage) : app.exit(error);
    }
    std::string command = is_command ? "stoker " + first : "stoker";
    bool for_script = first == "run" && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    std::fprintf(stderr, "stoker: %s; %s`%s --help` shows what it takes\n", error.what(),
                 for_script ? "the script's own arguments come after `--`; " : "", command.c_str());
    return kUsage;
  }
}

}  // namespace

int command_line(int argc, char** argv, const Hooks& hooks) {
  // What follows `--` is the script's, word for word.
  std::vector<std::string> mine, theirs;
  bool past = false;
  for (int i = 1; i < argc; ++i) {
    if (!past && std::string_view(argv[i]) == "--")
      past = true;
    else
      (past ? theirs : mine).emplace_back(argv[i]);
    if (!is_text(argv[i])) {
      std::fprintf(stderr, "stoker: argument %d, %s, is not UTF-8\n", i,
                   Json(std::string(argv[i])).dump().c_str());
      return kUsage;
    }
  }

  CLI::App app("stoker runs training jobs over groups of machines and keeps their accelerators fed.",
               "stoker");
  app.set_version_flag("--version", std::string("stoker ") + STOKER_VERSION);
  app.require_subcommand(1);
  int code = kDone;
  bool json = false;
  auto with_json = [&](CLI::App* command) { command->add_flag("--json", json, "Print JSON"); };

  RunArguments run_arguments;
  CLI::App* run_command = app.add_subcommand("run", "Run SCRIPT as a job; what follows -- are its arguments");
  run_command->add_option("SCRIPT", run_arguments.script, "A .py or .sh file, or a program")->required();
  run_command
      ->add_option("--group", run_arguments.groups,
                   "NAME=COUNTxTYPE[:ROLE[@GROUP,...]], e.g. data=2xml.c5.9xlarge:feed; TYPE may be `here` "
                   "or cpus=8,gpus=1,price=0.4. Default: train=1xhere")
      ->take_all()
      ->allow_extra_args(false);
  run_command->add_option("--input", run_arguments.inputs, "NAME=DIR, shown at /opt/ml/input/data/NAME")
      ->take_all()
      ->allow_extra_args(false);
  run_command->add_option("--env", run_arguments.environment, "NAME=VALUE for the script")
      ->take_all()
      ->allow_extra_args(false);
  run_command->add_option("--name", run_arguments.name, "Name of the job");
  run_command->add_option("--cpu-scale", run_arguments.cpu_scale, "Cores per vCPU, e.g. 0.04")
      ->check(CLI::Range(0.001, 16.0));
  run_command->add_flag("--fewer-gpus", run_arguments.fewer_gpus, "Run with the accelerators there are");
  run_command->add_option("--requirements", run_arguments.requirements,
                          "Default: requirements.txt beside the script");
  run_command->add_option("--python", run_arguments.python, "Interpreter; default: the active environment's");
  run_command->add_option("--grace", run_arguments.grace_s, "Seconds between TERM and KILL (120)")
      ->check(CLI::Range(0.0, 3600.0));
  run_command->add_flag("--detach,-d", run_arguments.detach, "Print the job's name and return");
  with_json(run_command);

  bool all = false;
  CLI::App* ps_command = app.add_subcommand("ps", "List jobs");
  ps_command->add_flag("--all,-a", all, "Also those that have ended");
  with_json(ps_command);

  LogsArguments logs_arguments;
  CLI::App* logs_command = app.add_subcommand("logs", "Print a job's logs");
  logs_command->add_option("JOB", logs_arguments.job, "A name, the beginning of one, or `last`")->required();
  logs_command->add_flag("-f,--follow", logs_arguments.follow, "Until the job has ended");
  logs_command->add_option("--group", logs_arguments.group, "Only this group");
  logs_command->add_option("--host", logs_arguments.host, "Only this host (algo-N)");
  with_json(logs_command);

  std::string job;
  bool no_wait = false;
  CLI::App* stop_command = app.add_subcommand("stop", "Stop a job and wait until nothing of it is left");
  stop_command->add_option("JOB", job, "A name, the beginning of one, or `last`")->required();
  stop_command->add_flag("--no-wait", no_wait, "Return at once");
  with_json(stop_command);

  std::vector<std::string> compared;
  CLI::App* compare_command =
      app.add_subcommand("compare", "Compare step time and cost of jobs with the first");
  compare_command->add_option("JOBS", compared, "Two or more jobs")->required()->expected(2, 16);
  with_json(compare_command);

  CLI::App* advise_command = app.add_subcommand("advise", "Say what binds a job and what would help");
  advise_command->add_option("JOB", job, "A name, the beginning of one, or `last`")->required();
  with_json(advise_command);

  CLI::App* data_command = app.add_subcommand("data", "Look into the data side");
  data_command->require_subcommand(1);
  CLI::App* replay_command =
      data_command->add_subcommand("replay", "Show the samples that a loader's state stands before");
  replay_command->set_help_flag();  // its own arguments and --help are the Python program's
  replay_command->prefix_command();

  ServerArguments server_arguments;
  bool stop_it = false, force = false;
  CLI::App* server_command =
      app.add_subcommand("server", "Run this user's server in the foreground, or --stop it");
  server_command
      ->add_option("--cpu-scale", server_arguments.cpu_scale, "Cores per vCPU for jobs that don't say")
      ->check(CLI::Range(0.001, 16.0));
  server_command->add_option("--idle", server_arguments.idle_s, "End after so many idle seconds; 0: never");
  server_command->add_flag("--stop", stop_it, "End the running server");
  server_command->add_flag("--force", force, "With --stop: stop its jobs too");
  server_command->add_flag("--detached", server_arguments.detached)->group("");
  server_command->add_option("--ready-fd", server_arguments.ready_fd)->group("");
  with_json(server_command);

  run_command->callback([&] {
    run_arguments.arguments = theirs;
    run_arguments.json = json;
    code = run(run_arguments);
  });
  ps_command->callback([&] { code = ps(all, json); });
  logs_command->callback([&] {
    logs_arguments.json = json;
    code = logs(logs_arguments);
  });
  stop_command->callback([&] { code = stop(job, !no_wait, json); });
  compare_command->callback([&] { code = compare(compared, json); });
  advise_command->callback([&] { code = advise(job, json); });
  replay_command->callback([&] { code = become_python("stoker.data.replay", replay_command->remaining()); });
  server_command->callback([&] {
    server_arguments.json = json;
    code = stop_it ? stop_server(force, json) : hooks.serve(server_arguments);
  });

  return parse(app, std::move(mine), code);
}

}  // namespace stoker::cli
