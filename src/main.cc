// SPDX-License-Identifier: Apache-2.0
// The one binary. Its first argument picks what it is: the processes that stoker starts itself, else the
// command line.
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "agent/commands.h"
#include "api/serve.h"
#include "cli/command.h"
#include "feed/commands.h"

namespace {

std::string own_path() {
  char path[PATH_MAX];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string("stoker");
}

// A standard stream that the caller closed stays unusable, instead of becoming the next socket or database.
void hold_standard_streams() {
  for (int fd = 0; fd <= 2; fd++)
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int serve(const stoker::cli::ServerArguments& arguments) {
  stoker::api::ServeOptions options;
  options.binary = own_path();
  options.cpu_scale = arguments.cpu_scale;
  options.idle_s = arguments.idle_s;
  options.detached = arguments.detached;
  options.ready_fd = arguments.ready_fd;
  options.json = arguments.json;
  return stoker::api::serve(options);
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  std::string_view part = argc > 1 ? argv[1] : "";
  if (part == "agent") return stoker::agent::agent_main(argc - 1, argv + 1);
  if (part == "feed-worker") return stoker::feed::feed_worker_main(argc - 1, argv + 1);
  if (part == "feed-dispatcher") return stoker::feed::feed_dispatcher_main(argc - 1, argv + 1);
  return stoker::cli::command_line(argc, argv, {serve});
}
