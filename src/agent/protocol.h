// SPDX-License-Identifier: Apache-2.0
// What the server and an agent say to each other: values, and their JSON. Pure.
//
//   server -> agent   one Assignment (a file or descriptor given at start; it may hold secrets, so never in
//   argv), then
//                     AgentCommands, numbered from 1:  GET /internal/v1/agents/ID/commands?after=N  ->
//                     {"commands": [...]} (a long poll: the answer may be empty after 25 s)
//   agent -> server   AgentEvents, numbered from 1:  POST /internal/v1/agents/ID/events {"events": [...]}
//                     -> {"acknowledged": N}; events after N are sent again, so the server drops numbers it
//                     has seen.
//
// Order of states: preparing -> started -> exited | stopped | failed -> released. `failed` may come instead
// of any of the first three; `notice` and `sizing` at any time. After `released` nothing of the instance is
// left on the machine and the agent ends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace stoker::agent {

enum class Role { kNone, kFeed, kAux };
const char* role_name(Role role);  // "", "feed", "aux"

struct Group {
  std::string name;
  std::string instance_type;
  Role role = Role::kNone;
  std::vector<std::string> hosts;   // algo-1, …
  std::vector<std::string> serves;  // names of the groups a helper serves
  bool operator==(const Group&) const = default;
};

struct Channel {
  std::string name;
  std::string path;  // on the host
  bool read_only = true;
  bool operator==(const Channel&) const = default;
};

// One bridge per job; every instance of the job has an address in one subnet. The first agent makes the
// bridge, whoever is last removes it.
struct Network {
  std::string bridge;   // interface name on the host, at most 15 characters, unique on the machine
  std::string address;  // of this instance
  std::string gateway;  // of the bridge
  int prefix = 24;
  int mtu = 1500;
  bool isolated = false;  // no egress
  bool operator==(const Network&) const = default;
};

// What runs. A script (relative to the code directory: .py by the interpreter, .sh by /bin/sh, else executed
// itself) or a command (argv, found on PATH); empty both in a feed group means the built-in feed worker.
struct Entry {
  std::string script;
  std::vector<std::string> command;
  std::vector<std::string> arguments;
  bool operator==(const Entry&) const = default;
};

// Each group that is fed has a dispatcher on its first host, which lives as long as the group needs it. Empty
// where nobody feeds this instance and it feeds nobody.
struct Feed {
  std::vector<std::string>
      dispatchers;         // algo-1:7170; of a fed group its own, of a feed group one per group it serves
  std::string token_file;  // on the host, 0400
  bool sized = false;      // of a fed group: the dispatcher shall say how many workers are wanted
  bool joins = false;      // of a worker: while the job runs, so that hosts files of the others lack its name
  bool operator==(const Feed&) const = default;
};

struct Assignment {
  std::string job;
  int64_t attempt = 1;
  std::string host;  // algo-N
  std::string group;
  int64_t rank = 0;  // within the group
  Role role = Role::kNone;
  std::string instance_type;
  int64_t vcpus = 1;
  double cores = 1;  // vCPUs x cpu_scale
  int64_t memory_bytes = 0;
  int64_t gpus = 0;                              // those there are, not those the type names
  std::map<std::string, std::string> addresses;  // every host of the job -> its address
  std::vector<Group> groups;                     // in request order
  Network network;
  std::string job_dir;      // $STOKER_HOME/jobs/NAME
  std::string stoker_home;  // hidden from the instance, but for what it needs
  std::string code_dir;     // the job's own copy
  Entry entry;
  std::map<std::string, std::string> hyperparameters;
  std::map<std::string, std::string> environment;
  std::vector<Channel> channels;
  std::string python;             // interpreter, absolute path
  std::string requirements_file;  // relative to code_dir; "" for none
  std::vector<std::string>
      readable;  // further host paths that must stay visible where they are (environments)
  Feed feed;
  int64_t uid = 0;
  int64_t gid = 0;
  double grace_s = 120;  // between TERM and KILL

  const Group* find_group(const std::string& name) const;
  // Whether a feed group serves the group of this instance.
  bool is_served() const;
  Json to_json() const;
  // Refuses what would be unsafe or senseless to act upon, naming the field.
  static Result<Assignment> from_json(const Json& json);
  bool operator==(const Assignment&) const = default;
};

// ---- events ----
struct Preparing {
  std::string step;
  bool operator==(const Preparing&) const = default;
};
struct Started {
  int64_t pid = 0;  // of the instance's PID 1, on the host
  bool operator==(const Started&) const = default;
};
// The user's process ended by itself. A signal's `code` is 128 + signal.
struct Exited {
  int code = 0;
  int signal = 0;
  bool oom = false;     // the kernel killed something of this instance for memory
  std::string reason;   // for people: "exit code 3", "killed by SIGKILL: out of memory (limit 1.0 GiB)"
  std::string failure;  // /opt/ml/output/failure as text.h shows it, at most 4 KiB; "" where there is none
  bool operator==(const Exited&) const = default;
};
// Ended because the server said stop.
struct Stopped {
  int code = 0;
  int signal = 0;
  bool killed = false;  // it outlived the grace
  bool operator==(const Stopped&) const = default;
};
// The platform's fault, not the user's.
struct Failed {
  std::string step;
  std::string message;
  bool operator==(const Failed&) const = default;
};
// For the record: something is weaker than asked (no egress, say). Changes no state.
struct Notice {
  std::string text;
  bool operator==(const Notice&) const = default;
};
// How many instances of a feed group would keep this instance's group from waiting, whenever that changes.
// Changes no state of the instance.
struct WantedSize {
  std::string group;
  int64_t wanted = 0;
  int64_t workers = 0;  // there were
  double demand_per_s = 0, supply_per_s = 0, stall = 0;
  std::string reason;
  bool operator==(const WantedSize&) const = default;
};
Json to_json(const WantedSize& size);
WantedSize wanted_size_from_json(const Json& json);

// Nothing is left on the machine.
struct Released {
  bool operator==(const Released&) const = default;
};

struct AgentEvent {
  int64_t seq = 0;
  int64_t time_ms = 0;  // wall clock
  std::variant<Preparing, Started, Exited, Stopped, Failed, Notice, Released, WantedSize> what;

  const char* state() const;  // preparing, started, exited, stopped, failed, notice, released, sizing
  Json to_json() const;
  static Result<AgentEvent> from_json(const Json& json);
  bool operator==(const AgentEvent&) const = default;
};

// ---- commands ----
struct Stop {
  double grace_s = 120;
  std::string reason;
  bool operator==(const Stop&) const = default;
};

struct AgentCommand {
  int64_t seq = 0;
  std::variant<Stop> what;

  Json to_json() const;
  static Result<AgentCommand> from_json(const Json& json);
  bool operator==(const AgentCommand&) const = default;
};

}  // namespace stoker::agent
