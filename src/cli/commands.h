// SPDX-License-Identifier: Apache-2.0
// How a command comes into the command line: its options and what it does, in one function each.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/number.h"
#include "cli/command.h"

namespace stoker::cli {

struct Commands {
  CLI::App& app;
  int& code;  // what the command that was typed has ended with

  // `Given` is what is typed for the command: `options(command, given)` names its options, `run(given)` does
  // it. Both ends of a parse share it, since CLI11 copies callbacks.
  template <typename Given, typename Options, typename Run>
  void add(const std::string& name, const std::string& what, Options options, Run run) {
    auto given = std::make_shared<Given>();
    CLI::App* command = app.add_subcommand(name, what);
    options(*command, *given);
    command->add_flag("--json", given->json, "Print JSON");
    command->callback([given, run = std::move(run), &code = code] { code = run(*given); });
  }
};

// The check of an option that is a number.
inline CLI::Validator number(const NumberLimits& limits) {
  return CLI::Validator(
      [limits](std::string& typed) {
        auto value = typed_number(limits, typed);
        return value.ok() ? std::string() : value.error().message;
      },
      "");
}

// The check of a typed job: what cannot be a name would be another request.
inline CLI::Validator job_name() {
  return CLI::Validator(
      [](std::string& typed) {
        const bool good = !typed.empty() && std::all_of(typed.begin(), typed.end(), [](unsigned char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
        });
        return good ? std::string()
                    : "'" + typed +
                          "' is no job: names have letters, digits and '-'; `stoker ps --all` lists them";
      },
      "");
}

// `theirs` is what followed `--`, `json` whether errors are wanted as JSON. What is passed by reference
// outlives the parse.
void add_run(Commands& commands, const std::vector<std::string>& theirs);
void add_ps(Commands& commands);
void add_logs(Commands& commands);
void add_stop(Commands& commands);
void add_rm(Commands& commands);
void add_top(Commands& commands);
void add_metrics(Commands& commands);
void add_compare(Commands& commands);
void add_advise(Commands& commands);
void add_data(Commands& commands, bool json);
void add_server(Commands& commands, const Hooks& hooks);

}  // namespace stoker::cli
