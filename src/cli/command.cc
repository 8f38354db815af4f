// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/python.h"
#include "cli/run.h"
#include "cli/session.h"

namespace stoker::cli {

namespace {

// What goes to the server goes as JSON, which would change such a word unseen.
bool is_text(const std::string& word) {
  auto again = Json::parse(Json(word).dump());
  return again.ok() && again->as_string() == word;
}

// The words that no command takes, as they were typed: CLI11 turns their order around.
std::string not_expected(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> extras = app.remaining(true);
  std::string out;
  for (const std::string& word : words) {
    auto at = std::find(extras.begin(), extras.end(), word);
    if (at == extras.end()) continue;
    extras.erase(at);
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

// Runs the callback of the command that was typed; usage errors say what to type next.
int parse(CLI::App& app, std::vector<std::string> words, bool json, const int& code) {
  std::string first = words.empty() ? std::string() : words.front();
  std::string known;
  bool is_command = false;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    is_command = is_command || command->get_name() == first;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (first == "help") {  // `stoker help run` is `stoker run --help`
    words.erase(words.begin());
    words.resize(std::min<size_t>(words.size(), 1));
    words.emplace_back("--help");
    return parse(app, std::move(words), json, code);
  }
  if (!first.empty() && first[0] != '-' && !is_command)
    return fail(invalid("there is no command '" + first + "'; there are " + known), json);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants them so
    return code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0 || first.empty()) {  // --help, --version, or nothing typed
      if (first.empty()) std::fprintf(stderr, "%s", app.help().c_str());
      return first.empty() ? static_cast<int>(kUsage) : app.exit(error);
    }
    std::string command = is_command ? "stoker " + first : "stoker";
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::string what = extras ? "not expected: " + not_expected(app, words) : error.what();
    return fail(invalid(what + "; " +
                        (first == "run" && extras ? "the script's own arguments come after `--`; " : "") +
                        "`" + command + " --help` shows what it takes"),
                json);
  }
}

}  // namespace

void add_run(Commands& commands, const std::vector<std::string>& theirs) {
  commands.add<RunArguments>(
      "run", "Run SCRIPT as a job; what follows -- are its arguments",
      [](CLI::App& command, RunArguments& given) {
        auto several = [&](const char* name, std::vector<std::string>& values, const char* what) {
          command.add_option(name, values, what)->take_all()->allow_extra_args(false);
        };
        command.add_option("SCRIPT", given.script, "A .py or .sh file, or a program")->required();
        several("--group", given.groups,
                "NAME=COUNTxTYPE[:ROLE[@GROUP,...]], e.g. data=2xml.c5.9xlarge:feed, or "
                "data=1..4xml.c5.9xlarge:feed, which grows and shrinks; TYPE may be `here` "
                "or cpus=8,gpus=1,price=0.4. Default: train=1xhere");
        several(
            "--entry", given.entries,
            "GROUP='WORK.py ARGUMENTS': what this group runs instead; a script beside SCRIPT or a program");
        several("--input", given.inputs, "NAME=DIR, shown at /opt/ml/input/data/NAME");
        several("--env", given.environment, "NAME=VALUE for the script");
        several("--hyperparameter", given.hyperparameters,
                "NAME=VALUE: SM_HP_NAME, SM_HPS, hyperparameters.json and, before the script's arguments, "
                "--NAME VALUE");
        command.add_option("--name", given.name, "Name of the job");
        command.add_option("--cpu-scale", given.cpu_scale, "Cores per vCPU, e.g. 0.04")
            ->check(number({0.001, 16, "cores per vCPU"}));
        command.add_flag("--fewer-gpus", given.fewer_gpus, "Run with the accelerators there are");
        command.add_option("--requirements", given.requirements,
                           "Default: requirements.txt beside the script");
        command.add_option("--python", given.python, "Interpreter; default: the active environment's");
        command.add_option("--grace", given.grace_s, "Seconds between TERM and KILL (120)")
            ->check(number({0, 3600, "seconds"}));
        command.add_flag("--detach,-d", given.detach, "Print the job's name and return");
      },
      [&theirs](RunArguments& given) {
        given.arguments = theirs;
        return run(given);
      });
}

void add_data(Commands& commands, bool json) {
  CLI::App* command = commands.app.add_subcommand("data", "Look into the data side");
  command->require_subcommand(1);
  CLI::App* replay =
      command->add_subcommand("replay", "Show the samples that a loader's state stands before");
  replay->set_help_flag();  // its own arguments and --help are the Python program's
  replay->prefix_command();
  replay->callback([replay, json, &code = commands.code] {
    code = become_python("stoker.data.replay", replay->remaining(), json);
  });
}

int command_line(int argc, char** argv, const Hooks& hooks) {
  // What follows `--` is the script's, word for word.
  std::vector<std::string> mine, theirs;
  bool past = false;
  for (int i = 1; i < argc; ++i) {
    if (!past && std::string_view(argv[i]) == "--")
      past = true;
    else
      (past ? theirs : mine).emplace_back(argv[i]);
  }
  // Before anything is parsed, since what is wrong may be the words themselves.
  const bool json = std::any_of(mine.begin(), mine.end(), [](const std::string& word) {
    return word == "--json" || word.starts_with("--json=");
  });
  for (int i = 1; i < argc; ++i)
    if (!is_text(argv[i]))
      return fail(invalid("argument " + std::to_string(i) + ", " + Json(std::string(argv[i])).dump() +
                          ", is not UTF-8; names of files and arguments must be"),
                  json);
  CLI::App app("stoker runs training jobs over groups of machines and keeps their accelerators fed.",
               "stoker");
  app.set_version_flag("--version", std::string("stoker ") + STOKER_VERSION);
  app.require_subcommand(1);
  int code = kDone;
  Commands commands{app, code};
  add_run(commands, theirs);
  add_ps(commands);
  add_logs(commands);
  add_stop(commands);
  add_rm(commands);
  add_top(commands);
  add_metrics(commands);
  add_compare(commands);
  add_advise(commands);
  add_data(commands, json);
  add_server(commands, hooks);
  return parse(app, std::move(mine), json, code);
}

}  // namespace stoker::cli
