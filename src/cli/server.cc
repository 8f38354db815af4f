// SPDX-License-Identifier: Apache-2.0
// `stoker server`: runs one, or ends the one that runs.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/commands.h"
#include "cli/session.h"

namespace stoker::cli {

namespace {

struct ServerCommand {
  ServerArguments server;
  bool stop = false, force = false, json = false;
};

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

}  // namespace

void add_server(Commands& commands, const Hooks& hooks) {
  commands.add<ServerCommand>(
      "server", "Run this user's server in the foreground, or --stop it",
      [](CLI::App& command, ServerCommand& given) {
        command.add_option("--cpu-scale", given.server.cpu_scale, "Cores per vCPU for jobs that don't say")
            ->check(number({0.001, 16, "cores per vCPU"}));
        command.add_option("--idle", given.server.idle_s, "End after so many idle seconds; 0: never")
            ->check(number({0, 1e9, "seconds"}));
        command.add_flag("--stop", given.stop, "End the running server");
        command.add_flag("--force", given.force, "With --stop: stop its jobs too");
        command.add_flag("--detached", given.server.detached)->group("");
        command.add_option("--ready-fd", given.server.ready_fd)
            ->check(number({0, 1 << 20, "", true}))
            ->group("");
      },
      [&hooks](ServerCommand& given) {
        given.server.json = given.json;
        return given.stop ? stop_server(given.force, given.json) : hooks.serve(given.server);
      });
}

}  // namespace stoker::cli
